"""Verification of drand rounds beside drand-client (npm) and drand-verify (PyPI), all in one run.

    python -m tests.bench.bench_drand [--scheme NAME] [--rounds N] [--laps N] [--no-peers]

Both peers are installed into a temporary folder and get the same rounds: of a chain with a fresh key, signed here. Times
are CPU time of one process, the best of all laps, after warming up, so that other load on the machine counts little; each
lap runs every verifier once. Ratios of one run count; times depend on the machine.
"""

import argparse
import hashlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from verifier.bls import fast, reference
from verifier.bls.groups import Group
from verifier.drand import SCHEMES, ChainInfo, Round, VerifiedRound, verify_round, verify_rounds
from verifier.encoding import u32, u64

DRAND_CLIENT, DRAND_VERIFY = "1.4.2", "0.2.1"
SINGLES = 20  # verifications, one by one, in the time of one round

# Reads the chain and its rounds, prints the best ms a round: one round again and again, then all rounds one by one.
# fetchBeacon is drand-client's whole way of a round but the network: parsing, randomness, verification.
CLIENT = """
import { readFileSync } from 'node:fs'
import { fetchBeacon } from 'drand-client'
const { info, rounds } = JSON.parse(readFileSync(process.argv[2]))
const singles = Number(process.argv[3])
const known = new Map(rounds.map(round => [round.round, round]))
const client = {
    options: { disableBeaconVerification: false, noCache: false },
    get: async number => known.get(number),
    chain: () => ({ info: async () => info }),
}
const cpu = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1000 }
const time = async numbers => {
    const since = cpu()
    for (const number of numbers) await fetchBeacon(client, number)
    return (cpu() - since) / numbers.length
}
const first = rounds[0].round
const one = Array(singles).fill(first)
await time(one)
let refused = false
known.set(first, { ...rounds[1], round: first })
console.error = () => {}
try { await fetchBeacon(client, first) } catch { refused = true }
if (!refused) throw Error('it verifies nothing')
known.set(first, rounds[0])
console.log(JSON.stringify([await time(one), await time(rounds.map(round => round.round))]))
"""

VERIFY = """
import json, sys, time
import drand_verify
chain = json.load(open(sys.argv[1]))
key, singles = chain["info"]["public_key"], int(sys.argv[2])
call = getattr(drand_verify, sys.argv[3])
given = [[r["round"], *([r["previous_signature"]] if "previous_signature" in r else []), r["signature"], key] for r in chain["rounds"]]
def clock(arguments):
    since = time.process_time()
    for one in arguments:
        call(*one)
    return 1000 * (time.process_time() - since) / len(arguments)
clock(given[:1] * singles)
try:
    call(given[1][0], *given[0][1:])
except ValueError:
    print(json.dumps([clock(given[:1] * singles), clock(given)]))
"""
FUNCTIONS = {
    "bls-unchained-g1-rfc9380": "verify_bls_unchained_g1_rfc9380",
    "bls-unchained-on-g1": "verify_bls_unchained_on_g1",
    "pedersen-bls-chained": "verify_pedersen_bls_chained",
}


def make_rounds(scheme, count):
    """A chain with a fresh key, and its first rounds."""
    group, secret = scheme.group, 1 + secrets.randbelow(reference.order(scheme.group) - 1)
    key, seed, genesis = reference.public_key(group, secret), secrets.token_bytes(32), 1_700_000_000
    chain_hash = hashlib.sha256(u32(3) + u64(genesis) + key + seed + b"bench").digest()
    chain = ChainInfo(chain_hash, key, 3, genesis, seed, scheme, "bench")
    rounds, previous = [], seed if scheme.chained else None
    for number in range(1, count + 1):
        signature = sign(group, scheme.dst, secret, scheme.message(number, previous))
        rounds.append(Round(number, signature, previous))
        previous = signature if scheme.chained else None
    return chain, rounds


def sign(group, dst, secret, message):
    if group is Group.BN254_G1:
        return reference.sign(group, dst, secret, message)
    return fast.sum_products(group, [fast.hash_to_curve(group, dst, message)], [secret]).to_compressed_bytes()


def write(path, chain, rounds):
    """Chain and rounds in the form of drand's HTTP API, version 1."""
    info = chain.as_dict()
    info |= {"groupHash": info.pop("genesis_seed"), "schemeID": info.pop("scheme")}
    info["metadata"] = {"beaconID": info.pop("beacon_id")}
    stated = []
    for one in rounds:
        fields = {"round": one.round, "randomness": hashlib.sha256(one.signature).hexdigest()}
        fields["signature"] = one.signature.hex()
        if one.previous_signature is not None:
            fields["previous_signature"] = one.previous_signature.hex()
        stated.append(fields)
    path.write_text(json.dumps({"info": info, "rounds": stated}))


def install(folder):
    """drand-client under folder/node_modules, drand-verify in folder/venv."""
    print(f"installing drand-client {DRAND_CLIENT} and drand-verify {DRAND_VERIFY} for this run", flush=True)
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    (folder / "client.mjs").write_text(CLIENT)
    venv.create(folder / "venv", with_pip=True)
    for command in (
        ["npm", "install", f"drand-client@{DRAND_CLIENT}"],
        [folder / "venv/bin/python", "-m", "pip", "install", f"drand-verify=={DRAND_VERIFY}"],
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


def run(*command):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout)


def clock(call, times=1):
    """CPU ms of one call, over `times` calls."""
    since = time.process_time()
    for _ in range(times):
        call()
    return 1000 * (time.process_time() - since) / times


def single(backend, chain, one, times=SINGLES):
    return clock(lambda: verify_round(chain, one, backend), times)


def bulk(backend, chain, rounds):
    since = time.process_time()
    answers = verify_rounds(chain, rounds, backend)
    spent = 1000 * (time.process_time() - since) / len(rounds)
    assert all(isinstance(answer, VerifiedRound) for answer in answers)
    return spent


def parts(backend, chain, rounds):
    """CPU ms a round of what a bulk check is made of."""
    group, scheme = chain.scheme.group, chain.scheme
    key = backend.decode_point(group.partner, chain.public_key)
    messages = [scheme.message(one.round, one.previous_signature) for one in rounds]
    signatures, hashed = [], []
    spent = {
        "decode the signature, check its order": clock(
            lambda: signatures.extend(backend.decode_point(group, one.signature) for one in rounds)
        ),
        "hash the message to the curve": clock(
            lambda: hashed.extend(backend.hash_to_curve(group, scheme.dst, message) for message in messages)
        ),
    }
    factors = [secrets.randbits(128) for _ in rounds]
    sums = []
    spent["two sums with 128-bit coefficients"] = clock(
        lambda: sums.extend(backend.sum_products(group, points, factors) for points in (hashed, signatures))
    )
    spent["two pairings, for all rounds together"] = clock(
        lambda: backend.pairings_agree(group, sums[0], key, sums[1]), 3
    )
    return {name: value / len(rounds) for name, value in spent.items()}


def best(measured):
    """The least of each number over all laps."""
    return [min(values) for values in zip(*measured, strict=True)]


def laps(scheme, chain, rounds, options, folder):
    """(one, bulk) for each verifier, by name."""
    file = folder / "rounds.json"
    write(file, chain, rounds)
    measured = {}
    for lap in range(options.laps):
        print(f"lap {lap + 1} of {options.laps}", flush=True)
        if scheme.group in fast.GROUPS:
            figures = [single(fast, chain, rounds[0]), bulk(fast, chain, rounds)]
            measured.setdefault("fair-beacon [fast]", []).append(figures)
        figures = [single(reference, chain, rounds[0], 3), bulk(reference, chain, rounds)]
        measured.setdefault("fair-beacon, py-ecc", []).append(figures)
        if options.peers:
            figures = run("node", folder / "client.mjs", file, str(SINGLES))
            measured.setdefault("drand-client (no bulk)", []).append(figures)
            if scheme.name in FUNCTIONS:
                python = folder / "venv/bin/python"
                figures = run(python, "-I", "-c", VERIFY, file, str(SINGLES), FUNCTIONS[scheme.name])
                measured.setdefault("drand-verify (no bulk)", []).append(figures)
    return {name: best(figures) for name, figures in measured.items()}


def ratio(name, value, goal=None):
    told = "" if goal is None else f"   (goal: {goal}, {'reached' if value >= goal else 'MISSED'})"
    print(f"  {name:<58} {value:8.1f}{told}")


def report_ratios(scheme, found):
    ours, own = found.get("fair-beacon [fast]"), found["fair-beacon, py-ecc"]
    for peer in ("drand-client (no bulk)", "drand-verify (no bulk)"):
        goals = (15, 80) if peer.startswith("drand-client") else (None, None)
        if ours and peer in found:
            ratio(f"{peer.split()[0]} / [fast], one round", found[peer][0] / ours[0], goals[0])
            ratio(f"{peer.split()[0]} / [fast], a round in bulk", found[peer][1] / ours[1], goals[1])
        if peer in found:
            ratio(f"{peer.split()[0]} / py-ecc, a round in bulk", found[peer][1] / own[1])
    goal = None if scheme.group is Group.BLS12_381_G2 else 8
    ratio("py-ecc: one by one / in bulk", own[0] / own[1], goal)


def report_parts(name, backend, chain, rounds, total, count):
    measured = [parts(backend, chain, rounds) for _ in range(count)]
    spent = {part: min(one[part] for one in measured) for part in measured[0]}
    print(f"where the time of {name} goes, in bulk (ms a round):")
    for part, value in spent.items():
        print(f"  {part:<58} {value:8.3f}   {100 * value / total:3.0f} %")
    rest = total - sum(spent.values())
    print(f"  {'the rest: objects, messages, coefficients, noise':<58} {rest:8.3f}   {100 * rest / total:3.0f} %")
    least = sum(list(spent.values())[:2])
    print(f"  decode and hash-to-curve alone: {least:.3f} ms; all of it is {total / least:.2f} times that")
    return least


def report(scheme, options, folder):
    print(f"\n{scheme.name}: {options.rounds} rounds", flush=True)
    chain, rounds = make_rounds(scheme, options.rounds)
    found = laps(scheme, chain, rounds, options, folder)
    print(f"{'CPU ms a round':<24} {'one round':>12} {'in bulk':>12}")
    for name, (one, many) in found.items():
        print(f"{name:<24} {one:>12.3f} {many:>12.3f}")
    print("ratios:")
    report_ratios(scheme, found)
    for name, backend in (("fair-beacon [fast]", fast), ("fair-beacon, py-ecc", reference)):
        if name in found:
            least = report_parts(name, backend, chain, rounds, found[name][1], options.laps)
            if options.peers:
                most = found["drand-client (no bulk)"][1] / least
                print(f"  so no bulk check with these two steps is over {most:.0f} times as fast as drand-client")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scheme", choices=SCHEMES, action="append", help="default: quicknet's and the chained one")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--laps", type=int, default=3)
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="only this project's backends")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.peers:
            install(folder)
        for scheme in options.scheme or ["bls-unchained-g1-rfc9380", "pedersen-bls-chained"]:
            report(SCHEMES[scheme], options, folder)


if __name__ == "__main__":
    sys.exit(main())
