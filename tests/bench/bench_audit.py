"""How many sessions a second an audit of a whole log verifies: `python -m tests.bench.bench_audit [--sessions N]`.

The log is made here, under a key and a chain of its own: matches of two contributions, three draws, several sessions to
a round. It is audited from a database file, in one process and in several, and a few of its sessions are checked one
transcript at a time, as `verifier check` does it (pairings in pure Python) and with the best pairing backend. In the
same run: the most memory that the audit took, for this log and for one a quarter as long. Beside other busy programs,
read the rates per second of processor time; the ratios are of these.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import re
import resource
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any

from beacon.rounds.network import Network
from tests.audit_support import signed
from tests.builder import LOG_KEY, ORIGIN
from verifier import merkle, whole_log
from verifier.audit.keeping import opened
from verifier.audit.run import Audit
from verifier.audit.sources import of_database
from verifier.bls.verify import best_backend
from verifier.check import Trust, check
from verifier.drand import verify_round
from verifier.draws import Dealer, parse_recipe
from verifier.encoding import encode_json
from verifier.seeds import Stream, binding, seed_chain, session_digest
from verifier.transcript import document_bytes, encode_transcript
from verifier.verdict import Exit

SESSIONS_A_ROUND = 20
CHECKED = 10
PERIOD = 3
NETWORK = Network.make(0x5EED, b"\x5e" * 32, 1_700_000_000, PERIOD)
CHAIN = NETWORK.chain
TRUST = Trust(log_key=LOG_KEY.vkey, chains={CHAIN.hash: CHAIN}, sandbox=True)
TURN = {"kind": "dice", "count": 2, "sides": 6}


@cache
def stated(number: int) -> dict[str, Any]:
    return {"round": number, "signature": NETWORK.sign(number).hex()}


def entry(kind: str, at: int, **fields: Any) -> bytes:
    return encode_json({"v": 1, "type": kind, "time": at, **fields})


def group(first_seq: int, count: int) -> Iterator[list[bytes]]:
    """The entries of `count` sessions of one round, in four steps: seals, contributions and closes, the round, the rest."""
    known = 10 + 4 * (first_seq // SESSIONS_A_ROUND)
    number = known + 3
    start, due = CHAIN.time(known) + 500, CHAIN.time(number) + 500
    seals, links = [], []
    for seq in range(first_seq, first_seq + count):
        links.append(seed_chain(hashlib.sha256(b"bench %d" % seq).digest(), 1))
        fields = {
            "log": ORIGIN, "host": f"host-{seq % 7}", "host_seq": seq // 7 + 1, "label": f"table {seq}", "replaces": None,
            "profile": "match", "custody": "beacon", "commitment": links[-1][0].hex(), "links": 1,
            "chain": CHAIN.hash.hex(), "round": number, "close_at": start + 1_000, "reveal_by": due + 700_000,
            "participants": [{"id": "white"}, {"id": "black"}], "open": False, "min_contributions": 0,
            "recipes": {"turn": TURN}, "plan": None, "attachments": [], "after": stated(known), "sandbox": False,
        }  # fmt: skip
        seals.append(entry("seal", start, **fields))
    yield seals
    given = [("white", b"w" * 16), ("black", b"b" * 16)]
    taken, digests = [], []
    for seq, seal in enumerate(seals, first_seq):
        leaf = merkle.leaf_hash(seal)
        mine = [(name, entropy + seq.to_bytes(8, "big")) for name, entropy in given]
        digests.append(session_digest(leaf, mine))
        taken += [
            entry("contribution", start, session=leaf.hex(), participant=name, entropy=entropy.hex())
            for name, entropy in mine
        ]
        taken.append(entry("close", start, session=leaf.hex(), contributions=2, digest=digests[-1].hex()))
    yield taken
    yield [entry("round", due, chain=CHAIN.hash.hex(), **stated(number))]
    randomness = hashlib.sha256(bytes.fromhex(stated(number)["signature"])).digest()
    recipe, rest = parse_recipe(TURN), []
    for seal, link, digest in zip(seals, links, digests, strict=True):
        session = merkle.leaf_hash(seal).hex()
        bound = binding(digest, 0, [], number, randomness)
        rolls = [Dealer().draw("turn", recipe, Stream(link[1], bound, "turn", n)) for n in (1, 2, 3)]
        rest.append(entry("draw", due, session=session, recipe="turn", n=1, purpose="", outcomes=rolls))
        rest.append(entry("reveal", due, session=session, by="service", seed=link[1].hex(), draws={"turn": 3}))
    yield rest


def log_of(sessions: int) -> list[bytes]:
    leaves = [entry("log", 0, origin=ORIGIN), entry("chain", CHAIN.time(1), info=CHAIN.as_dict())]
    for first in range(0, sessions, SESSIONS_A_ROUND):
        for step in group(first, min(SESSIONS_A_ROUND, sessions - first)):
            leaves += step
    return leaves


def write(path: Path, leaves: list[bytes]) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA application_id = {whole_log.APPLICATION_ID}")
        db.execute("CREATE TABLE entries (i INTEGER PRIMARY KEY, entry BLOB)")
        db.execute("CREATE TABLE checkpoints (size INTEGER PRIMARY KEY, note TEXT)")
        db.executemany("INSERT INTO entries VALUES (?, ?)", enumerate(leaves))
        db.execute("INSERT INTO checkpoints VALUES (?, ?)", [len(leaves), signed(leaves)])
        db.commit()
    return path


def audit(path: Path, processes: int, pipe: Any) -> None:
    begun, cpu = time.perf_counter(), time.process_time()
    with of_database(path) as source, opened(None) as state:
        auditor = Audit(state, TRUST, processes=processes)
        auditor.run(source)
        assert auditor.exit() == Exit.FAIR
        totals = state.get("totals")
    here, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = sum(one.ru_utime + one.ru_stime for one in (here, others)) - cpu
    pipe.send((time.perf_counter() - begun, cpu, totals["fair"], most_memory()))


def most_memory() -> int:
    """MiB at the most, of this program alone: what getrusage says goes on over an exec, from the one that made the log."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)[1]) // 1024  # type: ignore[index]


def measured(path: Path, processes: int) -> tuple[float, float, int, int]:
    """(seconds, CPU seconds and fair sessions, most MiB of the main process) of an audit in a process of its own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=audit, args=(path, processes, there))
    process.start()
    result: tuple[float, float, int, int] = here.recv()
    process.join()
    return result


def documents(leaves: list[bytes]) -> list[bytes]:
    """The transcripts of a short log's sessions."""
    hashes = [merkle.leaf_hash(leaf) for leaf in leaves]
    note, found = signed(leaves), []
    for seal in (leaf for leaf in leaves if b'"type":"seal"' in leaf):
        session = merkle.leaf_hash(seal).hex().encode()
        own = [i for i, leaf in enumerate(leaves) if leaf == seal or session in leaf or b'"type":"round"' in leaf]
        events = [(i, leaves[i], merkle.prove_inclusion(hashes, i)) for i in own]
        found.append(document_bytes(encode_transcript(ORIGIN, str(LOG_KEY.vkey), CHAIN.as_dict(), events, note)))
    return found


def one_by_one(several: list[bytes], verify: Any) -> float:
    """Sessions a CPU second, one transcript after the other."""
    begun = time.process_time()
    for document in several:
        assert check(document, TRUST, verify).exit == Exit.FAIR
    return len(several) / (time.process_time() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    sessions: int = arguments.sessions
    several = documents(log_of(CHECKED))
    plain = one_by_one(several, verify_round)
    fast = one_by_one(several * 10, partial(verify_round, backend=best_backend()))
    with tempfile.TemporaryDirectory() as folder:
        leaves = log_of(sessions)
        path = write(Path(folder) / "log.db", leaves)
        quarter = write(Path(folder) / "quarter.db", log_of(sessions // 4))
        size = len(leaves)
        del leaves
        alone, cpu, fair, memory = measured(path, 1)
        spread, spread_cpu, *_ = measured(path, arguments.processes)
        *_, less = measured(quarter, 1)
    assert fair == sessions
    best = sessions / cpu
    print(
        json.dumps(
            {
                "sessions": sessions,
                "entries": size,
                "backend": best_backend().NAME,
                "per_second": {
                    "1 process": round(sessions / alone),
                    f"{arguments.processes}": round(sessions / spread),
                },
                "per_cpu_second": {
                    "1 process": round(best),
                    f"{arguments.processes}": round(sessions / spread_cpu),
                    "verifier check": round(plain, 1),
                    "and fast": round(fast),
                },
                "ratio": {"to verifier check": round(best / plain), "and fast": round(best / fast, 1)},
                "most_MiB": {"whole": memory, "a quarter of it": less},
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
