// Runs the published @sigstore/verify, as it verifies entries of Rekor, on entries of a log of ours.
// Standard input: {vkey, entries}, each entry {checkpoint, index, hashes, entry}: a signed note, a number, base64 hashes
// and the exact text. Standard output: a JSON list, null for each entry that it takes, and else why it does not.
import core from '@sigstore/core'
import tlog from '@sigstore/verify/dist/tlog/index.js'

const ED25519_SPKI = Buffer.from('302a300506032b6570032100', 'hex')

const chunks = []
for await (const chunk of process.stdin) chunks.push(chunk)
const {vkey, entries} = JSON.parse(Buffer.concat(chunks).toString())

// name+keyid+base64(algorithm ‖ key), C2SP signed-note
const [name, id, key] = [vkey.slice(0, vkey.indexOf('+')), ...vkey.slice(vkey.indexOf('+') + 1).split(/\+(.*)/s)]
const spki = Buffer.concat([ED25519_SPKI, Buffer.from(key, 'base64').subarray(1)])
const authority = {
    logID: Buffer.from(id, 'hex'),
    baseURL: `https://${name}`,
    publicKey: core.crypto.createPublicKey(spki),
    validFor: {start: new Date(0), end: new Date(8.64e15)},
}

function refused({checkpoint, index, hashes, entry}) {
    const inclusionProof = {
        logIndex: String(index),
        hashes: hashes.map((hash) => Buffer.from(hash, 'base64')),
        checkpoint: {envelope: checkpoint},
    }
    try {
        tlog.verifyTLogInclusion({inclusionProof, canonicalizedBody: Buffer.from(entry)}, [authority])
        return null
    } catch (error) {
        return error.message
    }
}

process.stdout.write(JSON.stringify(entries.map(refused)))
