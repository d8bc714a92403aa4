"""`verifier open`: finish a session whose host or operator does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

import click

from verifier import fetch
from verifier.cli_common import JSON, LOG_KEY, leave, named, print_json, read, say, utc
from verifier.drand import ChainInfo, Round, VerifiedRound, verify_round
from verifier.encoding import Json, encode_json, parse_decimal, parse_hex
from verifier.errors import Code, FormatError, VerificationError
from verifier.evidence import LogClaim
from verifier.log_keys import LogTrust
from verifier.opening import Row, needed_rounds, open_session, session_of, unite
from verifier.receipts import parse_document
from verifier.session import Session, collect
from verifier.verdict import Claim, Exit, State

MAX_WANTED: Final = 10_000


def _signatures(_: click.Context, __: click.Parameter, values: Sequence[str]) -> dict[int | None, bytes]:
    found: dict[int | None, bytes] = {}
    for value in values:
        number, equals, signature = value.rpartition("=")
        with named("--round-signature"):
            key = parse_decimal(number) if equals else None
            if found.setdefault(key, parse_hex(signature)) != parse_hex(signature):
                raise FormatError(Code.USAGE, "two signatures for one round")
    return found


def _wanted(_: click.Context, __: click.Parameter, values: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for value in values:
        name, _equals, count = value.rpartition("=")
        with named("--draws"):
            found[name] = parse_decimal(count, MAX_WANTED)
    return found


@click.command(name="open")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@LOG_KEY
@click.option("--chain", "chains", multiple=True, metavar="FILE|NAME", help="A drand chain to trust, again for more.")
@click.option(
    "--round-signature", "signatures", multiple=True, metavar="[ROUND=]HEX", callback=_signatures,
    help="The signature of the timelock's round; with ROUND= of a round that the draws need.",
)  # fmt: skip
@click.option(
    "--relay", metavar="URL", help="A drand relay, to fetch what is missing of the rounds; it is not trusted."
)
@click.option(
    "--draws", "wanted", multiple=True, metavar="RECIPE=COUNT", callback=_wanted,
    help="How many draws of a match's recipe to make, also such as were never published.",
)  # fmt: skip
@JSON
def open_(
    files: tuple[str, ...],
    log_key: LogTrust | None,
    chains: tuple[str, ...],
    signatures: Mapping[int | None, bytes],
    relay: str | None,
    wanted: Mapping[str, int],
    as_json: bool,
) -> None:
    """Open a seed that was sealed by timelock, and finish the session with it.

    Needs nobody: not the host, not the service, not its database. FILE is the session's transcript, or receipts of its
    entries, of several players; the seal's must be among them. Once drand has signed the timelock's round, that
    signature opens the seed; what it opens to must be what the seal committed to. Then every draw is computed, also
    those that were never published.

    With --relay the rounds that are needed come over the network, from any relay of drand's, and are verified.

    Exit 0: the seed opens, and all draws agree with what was published. 1: it does not open, or a draw differs, or a
    file is false. 2: something is missing, such as a round, or the log's key. 3: unusable.

    \b
    Examples:
      verifier open transcript.json --log-key log.vkey --round-signature 9a3f...
      verifier open transcript.json --log-key log.vkey --relay https://api.drand.sh
      verifier open seal.json mine.json close.json --log-key log.vkey \\
        --round-signature 9a3f... --round-signature 1005=b7d1... --draws turn=60
    """
    with named("--chain"):
        trusted = {name: fetch.load_chain(name) for name in chains} if chains else fetch.main_chains()
    by_hash = {chain.hash: chain for chain in trusted.values()}
    documents = [parse_document(read(file)) for file in files]
    logs = [LogClaim(document, collect(document), log_key, None).claim() for document in documents]
    bad = [f"{file}: {log.text}" for file, log in zip(files, logs, strict=True) if log.state == State.FAILED]
    if bad:
        _end(Exit.FAILED, f"FAILED: {bad[0]}", as_json=as_json)
    try:
        session = session_of(unite(documents))
        rounds, trouble = _rounds(session, by_hash, signatures, relay)
        lock = session.seal.entry.timelock
        assert lock is not None
        opened = rounds.get((lock.chain, lock.round))
        if opened is None:
            _end(Exit.UNDECIDED, _not_yet(by_hash.get(lock.chain), lock.round, trouble), as_json=as_json)
        chain = session.seal.entry.chain
        seed, rows = open_session(session, opened, lambda number: rounds.get((chain, number)), wanted)
    except VerificationError as error:
        _end(Exit.FAILED, f"FAILED: {error.message}", as_json=as_json)
    _show(session, seed, rows, logs, as_json=as_json)


def _rounds(
    session: Session, chains: Mapping[bytes, ChainInfo], signatures: Mapping[int | None, bytes], relay: str | None
) -> tuple[dict[tuple[bytes, int], VerifiedRound], str]:
    """What is known of the timelock's round and the draws' rounds, all verified; and why the relay did not have one.

    From the options first, then from the documents, then from the relay.
    """
    seal = session.seal.entry
    assert seal.timelock is not None
    lock = (seal.timelock.chain, seal.timelock.round)
    asked = [lock, *((seal.chain, number) for number in needed_rounds(session))]
    unused = {number for number in signatures if number is not None} - {number for _, number in asked}
    if unused:
        raise FormatError(Code.USAGE, f"--round-signature: the session does not use round {min(unused)}")
    found: dict[tuple[bytes, int], VerifiedRound] = {}
    trouble = ""
    for key in asked:
        chain, logged = chains.get(key[0]), session.rounds.get(key)
        given = signatures.get(key[1], signatures.get(None) if key == lock else None)
        if chain is None or (given is None and logged is None and relay is None):
            continue
        if given is not None or logged is not None:
            previous = logged.entry.previous_signature if logged is not None else None
            signature = given if given is not None else logged.entry.signature if logged is not None else b""
            stated = Round(key[1], signature, previous)
        else:
            try:
                stated = fetch.relay_round(str(relay), chain, key[1])
            except FormatError as error:
                trouble = trouble or error.message
                continue
        try:
            found[key] = verify_round(chain, stated)
        except FormatError as error:
            raise VerificationError(Code.ROUND_SIGNATURE, f"round {key[1]}: {error.message}") from error
    return found, trouble


def _not_yet(chain: ChainInfo | None, number: int, trouble: str) -> str:
    if chain is None:
        return f"NOT OPENED: the timelock is to round {number} of a drand chain that was not given (--chain)."
    text = f"NOT OPENED: give the signature of round {number} of {chain.beacon_id}, due at {utc(chain.time(number))}"
    asked = f" The relay: {trouble}." if trouble else ""
    return f"{text}; every relay of drand's has it then, at /{chain.hash.hex()}/public/{number}.{asked}"


def _show(session: Session, seed: bytes, rows: Sequence[Row], logs: Sequence[Claim], *, as_json: bool) -> None:
    differs = [row for row in rows if row.same is False]
    missing = [row for row in rows if row.why]
    unsigned = any(log.state == State.UNKNOWN for log in logs)
    code = Exit.FAILED if differs else Exit.UNDECIDED if missing or unsigned else Exit.FAIR
    headline = f"The timelock opens to the seed that was sealed: {seed.hex()}"
    if as_json:
        draws: list[Json] = [row.as_dict() for row in rows]
        answer: dict[str, Json] = {"headline": headline, "session": session.seal.leaf.hex(), "seed": seed.hex()}
        print_json({**answer, "draws": draws, "log_verified": not unsigned, "exit": int(code)})
        leave(code)
    say(headline)
    if unsigned:
        say("NOT VERIFIED: the log's signature was not checked, since no --log-key was given.")
    for row in rows:
        say(f"{row.recipe} {row.n}: {_said(row)}{f'  ({row.purpose})' if row.purpose else ''}")
    say("The participants' own receipts show whether a contribution was left out; `verifier check` says the rest.")
    leave(code)


def _said(row: Row) -> str:
    if row.why:
        return f"not known: {row.why}"
    ours, theirs = (encode_json([value]).decode()[1:-1] for value in (row.outcome, row.claimed))
    if row.claimed is None:
        return f"{ours}  never published"
    return f"{ours}  as published" if row.same else f"{ours}  BUT PUBLISHED AS {theirs}"


def _end(code: Exit, text: str, *, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"headline": text, "exit": int(code)})
    else:
        say(text)
    leave(code)
