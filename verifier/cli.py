"""The command line of the verifier. Nothing here reaches the network, but `audit`, and `statistics` of an address.

Exit codes of every command:

    0   it holds            check: fair; round, receipt, draw, vectors: verified, present, the same, everything passed
    1   it does not hold    check: something FAILED, or the seed was never revealed
    2   not decided         check: open, void; receipt too: a key was not given; draw: not revealed; vectors: something
                            was not understood
    3   unusable input      also a wrong command line, a file that cannot be read, output that cannot be written
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click

from verifier import fetch, receipts, redo, report, vectors
from verifier.check import Trust
from verifier.check import check as check_document
from verifier.cli_audit import audit, check_db, fork
from verifier.cli_common import (
    JSON,
    LOG_KEY,
    VerifierGroup,
    by_hash,
    leave,
    named,
    print_json,
    progress,
    read,
    say,
    stopped_by_sigterm,
    utc,
    version,
)
from verifier.cli_open import open_
from verifier.cli_page import page
from verifier.cli_proof import proof
from verifier.cli_replay import replay
from verifier.cli_statistics import statistics
from verifier.drand import ChainInfo, Round, verify_round
from verifier.draws import MAX_N, parse_recipe
from verifier.encoding import Json, check_string, encode_json, parse_decimal, parse_document_json, parse_hex
from verifier.errors import Code, FormatError, VerificationError, VerifierError
from verifier.log_keys import LogKey, LogTrust, as_keys
from verifier.note import VerifierKey
from verifier.policy import MAX_POLICY_BYTES, Policy
from verifier.seeds import SEED_BYTES
from verifier.terminal import printable
from verifier.verdict import Exit, Verdict


@click.group(
    cls=VerifierGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 it holds, 1 it does not, 2 not decided, 3 unusable input or command line.",
)
@click.version_option(version(), prog_name="verifier")
def main() -> None:
    """Check games of chance against their public log, offline.

    A transcript holds a session's entries with their proofs. `verifier check` answers claim by claim: PROVEN, TRUSTED
    (whom), UNKNOWN (what is missing) or FAILED (which bytes). The verifier takes no key from a document: the log's key,
    the drand chains and the witnesses are yours to name.
    """


main.add_command(audit)
main.add_command(check_db)
main.add_command(fork)
main.add_command(open_)
main.add_command(page)
main.add_command(proof)
main.add_command(replay)
main.add_command(statistics)


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
    return click.style(printable(text), fg=colour)


# --- check -----------------------------------------------------------------------------------------------------------


@main.command()
@click.argument("file")
@LOG_KEY
@click.option("--chain", "chains", multiple=True, metavar="FILE|NAME", help="A drand chain to trust, again for more.")
@click.option("--policy", type=click.Path(), help="The witnesses to trust, and their quorum (C2SP tlog-policy).")
@click.option("--sandbox", is_flag=True, help="Accept a test session as such.")
@click.option(
    "--require", type=click.Choice(["proven"]),
    help="Exit 2 unless it is proven fair, nobody trusted. Needs --policy, and a log that its witnesses cosign.",
)  # fmt: skip
@click.option(
    "--attachment", "attachments", multiple=True, metavar="NAME=FILE", callback=_attachments,
    help="A file that the seal names by its SHA-256.",
)  # fmt: skip
@JSON
def check(
    file: str,
    log_key: LogTrust | None,
    chains: tuple[str, ...],
    policy: str | None,
    sandbox: bool,
    require: str | None,
    attachments: dict[str, bytes],
    as_json: bool,
) -> None:
    """Say what a transcript or receipt proves, claim by claim.

    FILE is a document, or - for standard input. Without --chain drand's main networks are trusted, which come
    with the verifier, and no test network. Exit 0: fair. 1: something failed. 2: not decided. 3: unusable.

    Without witnesses the best that one transcript can reach is "Fair if the operator is honest": `unpredictable`,
    `sole` and `witnessed` are PROVEN only in a log that witnesses cosign, named in --policy, and `sole` only by a
    document that holds every leaf from the seal to the end.

    \b
    Examples:
      verifier check transcript.json --log-key "$(cat log.vkey)"
      verifier check transcript.json --log-key log.vkey --policy witnesses.policy --require proven
      verifier check transcript.json --log-key log.vkey --chain chain.json --sandbox
      curl -s https://beacon.example/v1/sessions/ID/transcript | verifier check - --log-key log.vkey --json
    """
    with named("--chain"):
        trusted = {name: fetch.load_chain(name) for name in chains} if chains else fetch.main_chains()
    with named("--policy"):
        witnesses = Policy.parse(fetch.read_file(policy, MAX_POLICY_BYTES)) if policy is not None else None
    trust = Trust(
        log_key=log_key,
        chains=by_hash(trusted),
        policy=witnesses,
        attachments=attachments,
        sandbox=sandbox,
        require_proven=require == "proven",
    )
    data = read(file)
    try:
        verdict = check_document(data, trust)
    except FormatError as error:
        raise receipts.explain_answer(data) or error from error
    if as_json:
        print_json({**verdict.as_dict(), "trusted": _trusted(trust, trusted)})
    else:
        trust_lines = map(printable, _trusted_lines(trust, trusted, given=bool(chains)))
        lines = report.lines(_printable_verdict(verdict), trust_lines, _style)
        click.echo("\n".join(lines))
    leave(verdict.exit)


def _printable_verdict(verdict: Verdict) -> Verdict:
    """The verdict whose texts can be printed; its session's are strings of 3.4, as any document's."""
    claims = tuple(
        replace(
            claim,
            text=printable(claim.text),
            findings=tuple(replace(finding, text=printable(finding.text)) for finding in claim.findings),
        )
        for claim in verdict.claims
    )
    return replace(verdict, claims=claims, remarks=tuple(map(printable, verdict.remarks)))


def _trusted(trust: Trust, chains: Mapping[str, ChainInfo]) -> dict[str, Json]:
    return {
        "log_key": str(trust.log_key) if trust.log_key is not None else None,
        "chains": {chain.hash.hex(): name for name, chain in chains.items()},
        "policy": trust.policy.quorum_description() if trust.policy is not None else None,
    }


def _trusted_lines(trust: Trust, chains: Mapping[str, ChainInfo], *, given: bool) -> list[str]:
    whence = "given" if given else "those pinned in this verifier"
    lines = [f"Trusted drand chains ({whence}): {', '.join(chains)}"]
    logs: Sequence[LogKey | VerifierKey] = trust.policy.logs if trust.policy is not None else ()
    if trust.log_key is not None:
        logs = as_keys(trust.log_key).keys
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
    with named("CHAIN"):
        info = fetch.load_chain(chain)
    with named("--previous-signature"):
        previous = parse_hex(previous_signature) if previous_signature is not None else None
    with named("ROUND"):
        stated_number = parse_decimal(number)
        if not 1 <= stated_number <= info.final_round:
            raise FormatError(Code.ROUND, f"rounds of this chain are 1 to {info.final_round}")
    with named("SIGNATURE"):
        stated = Round(stated_number, parse_hex(signature), previous)
    error: VerifierError | None = None
    randomness = ""
    try:
        randomness = verify_round(info, stated).randomness.hex()
    except VerificationError as refused:
        error = refused
    except FormatError as refused:
        if refused.code != Code.POINT:
            raise FormatError(Code.USAGE, f"--previous-signature: {refused.message}") from refused
        error = refused
    due = info.time(stated.round)
    when = utc(due)
    answer: dict[str, Json] = {"chain": info.hash.hex(), "round": stated.round, "time": due, "time_utc": when}
    answer["valid"] = error is None
    if as_json:
        print_json({**answer, **({"randomness": randomness} if error is None else {"error": str(error)})})
    elif error is None:
        say(f"Round {stated.round} of {info.beacon_id} was signed by the chain; it fell due at {when} ({due} ms).")
        say(f"randomness {randomness}")
    else:
        say(f"Not a round of {info.beacon_id}: {error}")
    leave(Exit.FAIR if error is None else Exit.FAILED)


# --- receipt ---------------------------------------------------------------------------------------------------------


@main.command()
@click.argument("file")
@click.option("--transcript", required=True, help="The session's transcript, or - for standard input.")
@LOG_KEY
@JSON
def receipt(file: str, transcript: str, log_key: LogTrust | None, as_json: bool) -> None:
    """Say whether the entry of my receipt, with my own bytes, is in a transcript.

    Only the sender of a contribution can notice that it was left out: keep the receipts. FILE is a receipt, the
    service's whole answer with receipts in it (of several, the first contribution's is taken), or a tlog-proof with the
    entry in it. Without --log-key nothing is verified. Exit 0: present. 1: absent, replaced or not counted, or one of
    the files is false. 2: not decided, or no key. 3: unusable.

    \b
    Examples:
      verifier receipt white.receipt.json --transcript transcript.json --log-key log.vkey
      verifier receipt white.receipt.json --transcript transcript.json --log-key log.vkey --json
    """
    if file == transcript == "-":
        raise click.UsageError("only one of the two files can be standard input")
    answer = receipts.compare(read(file), read(transcript), log_key)
    if as_json:
        print_json(answer.as_dict())
    else:
        colour = {Exit.FAIR: "green", Exit.FAILED: "red"}.get(answer.exit, "yellow")
        click.echo(_style(answer.headline, colour))
        if answer.field is not None:
            say(f"  the receipt is the `{answer.field}` of the service's answer")
        say(f"  receipt:    {answer.receipt_log.state} {answer.receipt_log.text}")
        say(f"  transcript: {answer.transcript_log.state} {answer.transcript_log.text}")
    leave(answer.exit)


# --- draw ------------------------------------------------------------------------------------------------------------


@main.command()
@click.option("--transcript", metavar="FILE", help="Take seed, binding and recipe from it, or from - (standard input).")
@click.option("--seed", metavar="HEX", help="s_k, 32 bytes: the revealed seed, or the draw's own link.")
@click.option("--binding", metavar="HEX", help="B, 32 bytes (PROTOCOL.md, 4.1).")
@click.option("--recipe", required=True, metavar="NAME", help="The recipe's name in the seal.")
@click.option("--n", "number", required=True, metavar="N", help="The number of the draw, from 1.")
@click.argument("definition", metavar="[JSON]", required=False)
@JSON
def draw(
    transcript: str | None,
    seed: str | None,
    binding: str | None,
    recipe: str,
    number: str,
    definition: str | None,
    as_json: bool,
) -> None:
    """Show one outcome with the bytes of the stream that it used, for redoing it by hand.

    With --transcript, seed, binding and recipe come from a session's transcript, and the outcome is compared with what
    it says. Exit 0: the same. 1: another. 2: not revealed yet, or no such draw. 3: unusable. That says nothing about
    the log: `verifier check` does.

    Without it, give --seed, --binding and the recipe's JSON as the seal has it. A deal is then replayed from its first
    draw under the same seed and binding, as in a match.

    \b
    Examples:
      verifier draw --transcript transcript.json --recipe turn --n 3
      verifier draw --seed 14eb8c1dfd8ebd852e63e80dcf42b4ac455661475867cfaef369b9aaafd9df1c \\
        --binding 0888a077da16896565689b1be6f85930c5c15b58ce004dc68b5dd6492d19dc30 \\
        --recipe turn --n 1 '{"kind":"dice","count":2,"sides":6}'
    """
    with named("--recipe"):
        check_string(recipe)
    with named("--n"):
        n = parse_decimal(number, MAX_N)
        if n < 1:
            raise FormatError(Code.DECIMAL, "draws are numbered from 1")
    if transcript is not None:
        if (seed, binding, definition) != (None, None, None):
            raise click.UsageError("--transcript stands in place of --seed, --binding and JSON")
        answer = redo.compare(receipts.parse_document(read(transcript)), recipe, n)
        if as_json:
            print_json(answer.as_dict())
        else:
            say(*answer.lines())
        leave(answer.exit)
    if seed is None or binding is None or definition is None:
        raise click.UsageError("give --transcript FILE, or all of --seed, --binding and JSON")
    redone = _redo_given(seed, binding, recipe, n, definition)
    if as_json:
        print_json(redone.as_dict())
        return
    say(f"{recipe} {n}: {encode_json([redone.value]).decode()[1:-1]}", *redone.lines())


def _redo_given(seed: str, binding: str, name: str, n: int, definition: str) -> redo.Redone:
    with named("JSON"):
        recipe = parse_recipe(parse_document_json(definition.encode("utf-8", "surrogateescape")))
    with named("--seed"):
        key = parse_hex(seed, SEED_BYTES)
    with named("--binding"):
        bound = parse_hex(binding, SEED_BYTES)
    try:
        return redo.redo(lambda _: (key, bound), name, recipe, n)
    except VerificationError as error:
        raise FormatError(Code.USAGE, f"--n: {error.message}") from error


# --- vectors ---------------------------------------------------------------------------------------------------------


@main.command(name="vectors")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--jobs", type=click.IntRange(1, 256), help="Processes for pairings; default: one a processor.")
@JSON
def vectors_(files: tuple[str, ...], jobs: int | None, as_json: bool) -> None:
    """Run files of known answers; for those who implement the protocol elsewhere.

    Each file is recognised by its content: protocol bytes, scenarios, drand rounds, chains and refusals, timelocks,
    transparency-log formats, other systems' answers. Exit 0 only when everything in the files was understood, run and
    passed. 1: something failed. 2: something was not understood. 3: no such file.

    What belongs to a capability that this version does not have is reported as "not understood", with exit 2.

    \b
    Examples:
      verifier vectors tests/vectors/protocol.json tests/vectors/scenarios.json
      verifier vectors drand-rounds.json --jobs 4 --json
    """
    count = jobs or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    parsed = [(file, *_vector_file(file)) for file in files]
    summaries: list[Json] = []
    total: Counter[str] = Counter()
    for file, kind, cases in parsed:
        with stopped_by_sigterm(), closing(vectors.run_all(cases, count, progress(file))) as running:
            results = list(running)
        tally = Counter(str(result.status) for result in results)
        total += tally
        counts = {str(status): tally[status] for status in vectors.Status}
        if as_json:
            listed: list[Json] = [result.as_dict() for result in results]
            summaries.append({"file": file, "kind": kind, **counts, "cases": listed})
            continue
        for result in results:
            if result.status != vectors.Status.PASSED:
                say(f"{result.status}: {result.id}: {result.why}")
        say(f"{file} ({kind}): " + ", ".join(f"{number} {status}" for status, number in counts.items()))
    if total[vectors.Status.FAILED]:
        code = Exit.FAILED
    else:
        code = Exit.UNDECIDED if total[vectors.Status.NOT_UNDERSTOOD] or not total else Exit.FAIR
    if as_json:
        print_json({"exit": int(code), "files": summaries})
    leave(code)


def _vector_file(file: str) -> tuple[str, list[vectors.Case]]:
    try:
        return vectors.read(fetch.read_file(file))
    except FormatError as error:
        raise FormatError(
            error.code, error.message if error.code == Code.USAGE else f"{file}: {error.message}"
        ) from error
