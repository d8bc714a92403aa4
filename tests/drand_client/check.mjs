// Runs the published drand-client against devnets. Standard input: a JSON list of {url, hash, publicKey, round}.
// Standard output: one JSON object for each, in order: what the client made of it, or why it refused.
import {
    fetchBeacon,
    fetchBeaconByTime,
    HttpCachingChain,
    HttpChainClient,
    MultiBeaconNode,
    roundTime,
    watch,
} from 'drand-client'

const chunks = []
for await (const chunk of process.stdin) chunks.push(chunk)

async function check({url, hash, publicKey, round}) {
    const node = new MultiBeaconNode(url)
    const chains = await node.chains()
    const options = {
        disableBeaconVerification: false,
        noCache: false,
        chainVerificationParams: {chainHash: hash, publicKey},
    }
    const client = new HttpChainClient(new HttpCachingChain(`${url}/${hash}`, options), options)
    const info = await client.chain().info()
    const first = await fetchBeacon(client, 1)
    const asked = await fetchBeacon(client, round)
    const current = await fetchBeacon(client)
    const byTime = await fetchBeaconByTime(client, roundTime(info, round) + 1)
    const latest = await client.latest()
    const stop = new AbortController()
    let next
    for await (const beacon of watch(client, stop)) {
        if (beacon.round > current.round) {
            next = beacon
            stop.abort()
        }
    }
    return {
        chains: chains.map((chain) => chain.baseUrl),
        info,
        first,
        asked,
        byTime: byTime.round,
        current: current.round,
        latest: latest.round,
        next: next.round,
    }
}

const answers = []
for (const devnet of JSON.parse(Buffer.concat(chunks).toString())) {
    try {
        answers.push(await check(devnet))
    } catch (error) {
        answers.push({refused: error.message})
    }
}
console.log(JSON.stringify(answers))
