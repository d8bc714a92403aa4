"""Coverage-guided fuzzing of every parser of tests/parsers.py, each for so many seconds, from its examples on.

    python -m tests.fuzz --seconds 60                  all of them, one after the other
    python -m tests.fuzz --seconds 600 transcript age  these alone
    python -m tests.fuzz --list

Needs atheris (`pip install atheris`, Linux, CPython 3.11 to 3.13), which is no dependency of the tests: the same property
holds there under Hypothesis (tests/test_parsers.py). What is found stays in the folder that is named; put the smallest of
it among the examples. Exit code: 0 nothing found, 1 something found, 2 no atheris or no such parser.
"""

import argparse
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main():
    options = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    options.add_argument("names", nargs="*", metavar="PARSER", help="Names as --list shows them; without any, all.")
    options.add_argument("--seconds", type=int, default=60, help="For each parser; 60 without it.")
    options.add_argument("--list", action="store_true", help="Show the names of the parsers.")
    options.add_argument("--keep", type=Path, help="Where corpora and findings stay; a folder of its own without it.")
    options.add_argument("--one", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one is not None:
        return fuzz(given.one, given.seconds, given.keep)
    from tests.parsers import PARSERS  # noqa: PLC0415 - only now, for `--one` sees to it that it is instrumented

    if given.list:
        print("\n".join(PARSERS))
        return 0
    if unknown := [name for name in given.names if name not in PARSERS]:
        print(f"no such parser: {', '.join(unknown)}; --list shows them", file=sys.stderr)
        return 2
    if find_spec("atheris") is None:
        print("atheris is not installed: pip install atheris", file=sys.stderr)
        return 2
    folder = given.keep or Path(tempfile.mkdtemp(prefix="fuzz-"))
    found = [run(name, given.seconds, folder) for name in given.names or PARSERS]
    return int(any(found))


def run(name, seconds, folder):
    """Whether fuzzing one parser, in a process of its own, found something."""
    command = [sys.executable, "-m", "tests.fuzz", "--one", name, "--seconds", str(seconds), "--keep", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(f"{'FOUND' if done.returncode else 'ok   '} {name}", flush=True)
    if done.returncode:
        print("\n".join(done.stderr.splitlines()[-25:]), f"\nbelow {folder}", flush=True)
    return done.returncode != 0


def fuzz(name, seconds, folder):
    """Run libFuzzer on one parser; it ends the process."""
    import atheris  # noqa: PLC0415 - it is not there by itself

    with atheris.instrument_imports(include=["verifier", "beacon"]):
        from tests.parsers import PARSERS  # noqa: PLC0415 - instrumented
    parser = PARSERS[name]
    own = folder / "".join(sign if sign.isalnum() else "-" for sign in name)
    corpus = own / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, example in enumerate(parser.examples):
        (corpus / f"example-{number}").write_bytes(example)

    def one(data):
        if not parser.holds(data):
            raise AssertionError(f"{name}: what is read is not what was written")

    limits = [f"-max_total_time={seconds}", "-rss_limit_mb=4096", "-timeout=20", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], str(corpus), f"-artifact_prefix={own}/found-", *limits], one)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
