// Runs the published tlock-js on networks of ours. Standard input: a JSON list of {info, beacon, seal, open}, byte strings
// in base64; `beacon` is of the one round that all of it is about.
// Standard output: one JSON object for each, in order: what it sealed, and what it opened, or null where it refused.
import tlock from 'tlock-js'

const {Buffer, timelockDecrypt, timelockEncrypt} = tlock
const output = process.stdout
console.log = console.error // tlock-js tells which beacon it got

const chunks = []
for await (const chunk of process.stdin) chunks.push(chunk)

function client(info, beacon) {
    return {
        options: {disableBeaconVerification: false, noCache: false},
        chain: () => ({baseUrl: 'none', info: async () => info}),
        get: async () => beacon,
        latest: async () => beacon,
    }
}

async function opened(file, network) {
    try {
        return (await timelockDecrypt(Buffer.from(file, 'base64').toString('binary'), network)).toString('base64')
    } catch (error) {
        console.error(error.message)
        return null
    }
}

async function sealed(plaintext, round, network) {
    const armored = await timelockEncrypt(round, Buffer.from(plaintext, 'base64'), network)
    return armored.split('\n').filter((line) => !line.startsWith('-----')).join('')
}

const answers = []
for (const {info, beacon, seal, open} of JSON.parse(Buffer.concat(chunks).toString())) {
    const network = client(info, beacon)
    const answer = {sealed: [], opened: []}
    for (const plaintext of seal) answer.sealed.push(await sealed(plaintext, beacon.round, network))
    for (const file of open) answer.opened.push(await opened(file, network))
    answers.push(answer)
}
output.write(JSON.stringify(answers))
