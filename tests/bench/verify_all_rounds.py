"""Verify every published round of tests/vectors, one by one: `python tests/bench/verify_all_rounds.py`."""

import json
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from verifier.fetch import pinned_chains  # noqa: E402
from verifier.vectors_drand import run_round  # noqa: E402


def main() -> int:
    records = json.loads((ROOT / "tests/vectors/drand-rounds.json").read_text())["rounds"]
    chains = {chain.hash.hex(): chain for chain in pinned_chains().values()}
    outcomes: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for record in records:
        since = time.perf_counter()
        outcome = run_round(record, chains) or "passed"
        outcomes[f"{record['scheme']}: {outcome}"] += 1
        seconds[record["scheme"]] += time.perf_counter() - since
    for name, count in sorted(outcomes.items()):
        print(f"{count:4} {name}, {1000 * seconds[name.partition(':')[0]] / count:.0f} ms each")
    return int(any(not name.endswith(": passed") for name in outcomes))


if __name__ == "__main__":
    sys.exit(main())
