"""The command line of the verifier. Nothing here reaches the network.

Exit codes of every command:

    0   it holds            check: fair; round, receipt, vectors: verified, present, everything passed
    1   it does not hold    check: something FAILED, or the seed was never revealed
    2   not decided         check: open, void, or a key was not given; vectors: something was not understood
    3   unusable input      also a wrong command line, a file that cannot be read, output that cannot be written
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import click

from verifier import fetch, report, vectors
from verifier.check import Trust
from verifier.check import check as check_document
from verifier.drand import ChainInfo, Round, verify_round
from verifier.draws import MAX_N, parse_recipe, redraw
from verifier.encoding import MAX_DOCUMENT_BYTES, Json, encode_json, parse_decimal, parse_document_json, parse_hex
from verifier.errors import Code, FormatError, VerificationError, VerifierError
from verifier.note import VerifierKey
from verifier.policy import Policy
from verifier.receipts import compare
from verifier.seeds import SEED_BYTES
from verifier.verdict import Exit

MAX_POLICY_BYTES = 1_000_000
STOPPED = 130


class VerifierGroup(click.Group):
    """A click group whose every failure is exit 3: 1 and 2 are answers here."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, ValueError):
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        if sys.stdout is None:
            sys.exit(Exit.UNUSABLE)
        sys.exit(self._code(args, prog_name, complete_var, **extra))

    def _code(self, args: Sequence[str] | None, prog_name: str | None, complete_var: str | None, **extra: Any) -> int:
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
        except click.ClickException as error:
            error.show()
        except VerifierError as error:
            click.echo(f"unusable input: {error}", err=True)
        except (click.Abort, KeyboardInterrupt):
            click.echo("stopped", err=True)
            return STOPPED
        except (BrokenPipeError, SystemExit):  # click leaves by itself, with 1, when the pipe is closed
            _silence()
        except OSError as error:
            click.echo(f"cannot read or write: {error.strerror}", err=True)
            _silence()
        except Exception as error:  # noqa: BLE001 - no traceback and no exit code that would be an answer
            click.echo(f"internal error: {type(error).__name__}: {error}", err=True)
        else:
            return int(code) if isinstance(code, int) else 0
        return Exit.UNUSABLE


def _silence() -> None:
    """Keep Python from writing to a closed pipe again when it exits."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version() -> str:
    try:
        return metadata.version("fair-beacon")
    except metadata.PackageNotFoundError:
        return "(a source tree, not installed)"


@click.group(
    cls=VerifierGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 it holds, 1 it does not, 2 not decided, 3 unusable input or command line.",
)
@click.version_option(_version(), prog_name="verifier")
def main() -> None:
    """Check games of chance against their public log, offline.

    A transcript holds a session's entries with their proofs. `verifier check` answers claim by claim: PROVEN, TRUSTED
    (whom), UNKNOWN (what is missing) or FAILED (which bytes). The verifier takes no key from a document: the log's key,
    the drand chains and the witnesses are yours to name.
    """


def _vkey(_: click.Context, __: click.Parameter, value: str | None) -> VerifierKey | None:
    if value is None:
        return None
    text = value
    if "+" not in value and Path(value).is_file():
        text = fetch.read_file(value, 10_000).decode("utf-8", "replace").strip()
    return VerifierKey.parse(text)


LOG_KEY = click.option(
    "--log-key", metavar="VKEY", callback=_vkey, help="The log's verifier key (name+id+key), or a file that holds it."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")


def _read(file: str) -> bytes:
    """A document from a file or, for `-`, from standard input."""
    if file != "-":
        return fetch.read_file(file)
    data = sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise FormatError(Code.USAGE, f"standard input has more than {MAX_DOCUMENT_BYTES} bytes")
    return data


def _print_json(value: Mapping[str, Json]) -> None:
    click.echo(encode_json(value).decode("utf-8"))


def _leave(code: int) -> NoReturn:
    click.get_current_context().exit(int(code))


def _attachments(_: click.Context, __: click.Parameter, values: Sequence[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for value in values:
        name, equals, file = value.partition("=")
        if not equals or not name or name in found:
            raise click.BadParameter("each is NAME=FILE, each name once")
        try:
            with Path(file).open("rb") as stream:
                found[name] = hashlib.file_digest(stream, "sha256").digest()
        except OSError as error:
            raise click.BadParameter(f"cannot read {file}: {error.strerror}") from error
    return found


def _style(text: str, colour: str) -> str:
    return click.style(text, fg=colour)


# --- check -----------------------------------------------------------------------------------------------------------


@main.command()
@click.argument("file")
@LOG_KEY
@click.option("--chain", "chains", multiple=True, metavar="FILE|NAME", help="A drand chain to trust, again for more.")
@click.option("--policy", type=click.Path(), help="The witnesses to trust, and their quorum (C2SP tlog-policy).")
@click.option("--sandbox", is_flag=True, help="Accept a test session as such.")
@click.option("--require", type=click.Choice(["proven"]), help="Exit 2 unless it is proven fair, nobody trusted.")
@click.option(
    "--attachment", "attachments", multiple=True, metavar="NAME=FILE", callback=_attachments,
    help="A file that the seal names by its SHA-256.",
)  # fmt: skip
@JSON
def check(
    file: str,
    log_key: VerifierKey | None,
    chains: tuple[str, ...],
    policy: str | None,
    sandbox: bool,
    require: str | None,
    attachments: dict[str, bytes],
    as_json: bool,
) -> None:
    """Say what a transcript or receipt proves, claim by claim.

    FILE is a document, or - for standard input. Without --chain the drand networks that come with the verifier are
    trusted. Exit 0: fair. 1: something failed. 2: not decided. 3: unusable.

    \b
    Examples:
      verifier check transcript.json --log-key "$(cat log.vkey)"
      verifier check transcript.json --log-key log.vkey --policy witnesses.policy --require proven
      verifier check transcript.json --log-key log.vkey --chain chain.json --sandbox
      curl -s https://beacon.example/v1/sessions/ID/transcript | verifier check - --log-key log.vkey --json
    """
    trusted = {name: fetch.load_chain(name) for name in chains} if chains else fetch.pinned_chains()
    trust = Trust(
        log_key=log_key,
        chains=_by_hash(trusted),
        policy=Policy.parse(fetch.read_file(policy, MAX_POLICY_BYTES)) if policy is not None else None,
        attachments=attachments,
        sandbox=sandbox,
        require_proven=require == "proven",
    )
    verdict = check_document(_read(file), trust)
    if as_json:
        _print_json({**verdict.as_dict(), "trusted": _trusted(trust, trusted)})
    else:
        lines = report.lines(verdict, _trusted_lines(trust, trusted, given=bool(chains)), _style)
        click.echo("\n".join(lines))
    _leave(verdict.exit)


def _by_hash(chains: Mapping[str, ChainInfo]) -> dict[bytes, ChainInfo]:
    """Refuse two infos of one chain hash: the hash covers neither the scheme nor a last round (2.5)."""
    found: dict[bytes, ChainInfo] = {}
    for name, chain in chains.items():
        if found.setdefault(chain.hash, chain) != chain:
            raise FormatError(
                Code.USAGE, f"{name} says otherwise about the chain {chain.hash.hex()} than another one given"
            )
    return found


def _trusted(trust: Trust, chains: Mapping[str, ChainInfo]) -> dict[str, Json]:
    return {
        "log_key": str(trust.log_key) if trust.log_key is not None else None,
        "chains": {chain.hash.hex(): name for name, chain in chains.items()},
        "policy": trust.policy.quorum_description() if trust.policy is not None else None,
    }


def _trusted_lines(trust: Trust, chains: Mapping[str, ChainInfo], *, given: bool) -> list[str]:
    whence = "given" if given else "those pinned in this verifier"
    lines = [f"Trusted drand chains ({whence}): {', '.join(chains)}"]
    logs = [trust.log_key] if trust.log_key is not None else list(trust.policy.logs if trust.policy is not None else ())
    lines += [f"Trusted log key: {key}" for key in logs] or ["No log key was given."]
    if trust.policy is not None:
        lines.append(f"Witness policy: {trust.policy.quorum_description()}")
    return lines


# --- round -----------------------------------------------------------------------------------------------------------


@main.command(name="round")
@click.argument("chain")
@click.argument("number", metavar="ROUND")
@click.argument("signature")
@click.option("--previous-signature", metavar="HEX", help="On chained schemes; for round 1 the genesis seed.")
@JSON
def round_(chain: str, number: str, signature: str, previous_signature: str | None, as_json: bool) -> None:
    """Verify one drand round and print its randomness.

    CHAIN is the name or hash of a pinned network, or a file with a chain's info. Exit 0: the chain signed it. 1: it
    did not, or the signature is no canonical point of prime order. 3: unusable.

    \b
    Examples:
      verifier round quicknet 1000 \\
        b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39
      verifier round ./chain.json 7 SIGNATURE --json
      verifier round default 367 SIGNATURE --previous-signature SIGNATURE_OF_366
    """
    info = fetch.load_chain(chain)
    previous = parse_hex(previous_signature) if previous_signature is not None else None
    stated = Round(parse_decimal(number), parse_hex(signature), previous)
    error: VerifierError | None = None
    randomness = ""
    try:
        randomness = verify_round(info, stated).randomness.hex()
    except VerificationError as refused:
        error = refused
    except FormatError as refused:
        if refused.code != Code.POINT:
            raise
        error = refused
    time = info.time(stated.round)
    answer: dict[str, Json] = {"chain": info.hash.hex(), "round": stated.round, "time": time, "valid": error is None}
    if as_json:
        _print_json({**answer, **({"randomness": randomness} if error is None else {"error": str(error)})})
    elif error is None:
        click.echo(f"Round {stated.round} of {info.beacon_id} was signed by the chain; it fell due at {time} ms.")
        click.echo(f"randomness {randomness}")
    else:
        click.echo(f"Not a round of {info.beacon_id}: {error}")
    _leave(Exit.FAIR if error is None else Exit.FAILED)


# --- receipt ---------------------------------------------------------------------------------------------------------


@main.command()
@click.argument("file")
@click.option("--transcript", required=True, help="The session's transcript, or - for standard input.")
@LOG_KEY
@JSON
def receipt(file: str, transcript: str, log_key: VerifierKey | None, as_json: bool) -> None:
    """Say whether the entry of my receipt, with my own bytes, is in a transcript.

    Only the sender of a contribution can notice that it was left out: keep the receipts. FILE is a receipt as the
    service returned it, or a tlog-proof with the entry in it. Exit 0: present. 1: absent or replaced, or one of the
    files is false. 2: not decided. 3: unusable.

    \b
    Examples:
      verifier receipt white.receipt.json --transcript transcript.json --log-key log.vkey
      verifier receipt white.receipt.json --transcript transcript.json --log-key log.vkey --json
    """
    if file == transcript == "-":
        raise click.UsageError("only one of the two files can be standard input")
    answer = compare(_read(file), _read(transcript), log_key)
    if as_json:
        _print_json(answer.as_dict())
    else:
        colour = {Exit.FAIR: "green", Exit.FAILED: "red"}.get(answer.exit, "yellow")
        click.echo(_style(f"{answer.found.upper()}: {answer.text}.", colour))
        click.echo(f"  receipt:    {answer.receipt_log.state} {answer.receipt_log.text}")
        click.echo(f"  transcript: {answer.transcript_log.state} {answer.transcript_log.text}")
    _leave(answer.exit)


# --- draw ------------------------------------------------------------------------------------------------------------


@main.command()
@click.option("--seed", required=True, metavar="HEX", help="s_k, 32 bytes: the revealed seed, or the draw's own link.")
@click.option("--binding", required=True, metavar="HEX", help="B, 32 bytes (PROTOCOL.md, 4.1).")
@click.option("--recipe", required=True, metavar="NAME", help="The recipe's name in the seal.")
@click.option("--n", "number", required=True, metavar="N", help="The number of the draw, from 1.")
@click.argument("definition", metavar="JSON")
@JSON
def draw(seed: str, binding: str, recipe: str, number: str, definition: str, as_json: bool) -> None:
    """Show one outcome with the stream's blocks that it used, for redoing it by hand.

    JSON is the recipe as the seal has it. A deal is replayed from its first draw under the same seed and binding, as in
    a match.

    \b
    Examples:
      verifier draw --seed 14eb8c1dfd8ebd852e63e80dcf42b4ac455661475867cfaef369b9aaafd9df1c \\
        --binding 0888a077da16896565689b1be6f85930c5c15b58ce004dc68b5dd6492d19dc30 \\
        --recipe turn --n 1 '{"kind":"dice","count":2,"sides":6}'
    """
    n = parse_decimal(number, MAX_N)
    if n < 1:
        raise FormatError(Code.DECIMAL, "draws are numbered from 1")
    parsed = parse_recipe(parse_document_json(definition.encode("utf-8", "surrogateescape")))
    key, bound = parse_hex(seed, SEED_BYTES), parse_hex(binding, SEED_BYTES)
    try:
        outcome, stream = redraw(key, bound, recipe, parsed, n)
    except VerificationError as error:
        raise FormatError(error.code, error.message) from error
    blocks = [block.hex() for block in stream.blocks]
    value: Json = list(outcome) if isinstance(outcome, list) else outcome
    if as_json:
        listed: list[Json] = [*blocks]
        _print_json({"recipe": recipe, "n": n, "word": stream.word.hex(), "blocks": listed, "outcome": value})
        return
    click.echo(f"{recipe} {n}: {encode_json([value]).decode()[1:-1]}")
    click.echo(f"word     {stream.word.hex()}")
    for j, block in enumerate(blocks):
        click.echo(f"block_{j:<3}{block}")


# --- vectors ---------------------------------------------------------------------------------------------------------


@main.command(name="vectors")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--jobs", type=click.IntRange(1, 256), help="Processes for pairings; default: one a processor.")
@JSON
def vectors_(files: tuple[str, ...], jobs: int | None, as_json: bool) -> None:
    """Run files of known answers; for those who implement the protocol elsewhere.

    Each file is recognised by its content: protocol bytes, scenarios, drand rounds, chains and refusals,
    transparency-log formats, other systems' answers. Exit 0 only when everything in the files was understood, run and
    passed. 1: something failed. 2: something was not understood. 3: no such file.

    \b
    Examples:
      verifier vectors tests/vectors/protocol.json tests/vectors/scenarios.json
      verifier vectors drand-rounds.json --jobs 4 --json
    """
    count = jobs or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    read = [(file, *vectors.read(fetch.read_file(file))) for file in files]
    summaries: list[Json] = []
    total: Counter[str] = Counter()
    for file, kind, cases in read:
        results = list(vectors.run_all(cases, count, _progress(file)))
        tally = Counter(str(result.status) for result in results)
        total += tally
        counts = {str(status): tally[status] for status in vectors.Status}
        if as_json:
            listed: list[Json] = [result.as_dict() for result in results]
            summaries.append({"file": file, "kind": kind, **counts, "cases": listed})
            continue
        for result in results:
            if result.status != vectors.Status.PASSED:
                click.echo(f"{result.status}: {result.id}: {result.why}")
        click.echo(f"{file} ({kind}): " + ", ".join(f"{number} {status}" for status, number in counts.items()))
    if total[vectors.Status.FAILED]:
        code = Exit.FAILED
    else:
        code = Exit.UNDECIDED if total[vectors.Status.NOT_UNDERSTOOD] or not total else Exit.FAIR
    if as_json:
        _print_json({"exit": int(code), "files": summaries})
    _leave(code)


def _progress(file: str) -> Any:
    """A line on a terminal that says how far a file is."""
    if not sys.stderr.isatty():
        return lambda *_: None

    def show(done: int, of: int) -> None:
        end = "\n" if done == of else ""
        click.echo(f"\r{file}: {done} of {of}{end}", nl=False, err=True)

    return show
