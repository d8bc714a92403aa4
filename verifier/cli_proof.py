"""`verifier proof`: is the entry of a tlog-proof in a log that I trust?"""

from __future__ import annotations

import click

from verifier import fetch
from verifier.cli_common import JSON, LOG_KEY, leave, named, print_json, read, say
from verifier.encoding import Json
from verifier.errors import Code, FormatError, VerificationError
from verifier.log_keys import LogTrust, as_keys, require_signed
from verifier.merkle import leaf_hash
from verifier.note import Note, open_note
from verifier.policy import MAX_POLICY_BYTES, NONE, Policy
from verifier.tlog_proof import TlogProof, verify
from verifier.verdict import Exit


@click.command()
@click.argument("file")
@LOG_KEY
@click.option("--policy", type=click.Path(), help="The witnesses to trust, and their quorum (C2SP tlog-policy).")
@click.option("--entry", type=click.Path(), help="The entry's exact bytes, where the proof does not hold them.")
@JSON
def proof(file: str, log_key: LogTrust | None, policy: str | None, entry: str | None, as_json: bool) -> None:
    """Say whether the entry of a C2SP tlog-proof is in the log, and which witnesses saw that.

    FILE is a `.tlog-proof`, as `GET /v1/sessions/{id}/receipts/{index}/tlog-proof` gives it, of this log or any other.
    Give the log's key, or a policy that names it and the witnesses whose quorum you ask for. Exit 0: it is. 1: it is
    not, or nobody you trust signed it. 3: unusable.

    \b
    Examples:
      verifier proof 17.tlog-proof --log-key log.vkey
      verifier proof 17.tlog-proof --policy witnesses.policy --json
    """
    if log_key is None and policy is None:
        raise FormatError(Code.USAGE, "give --log-key, or --policy with the log's key in it")
    with named("--policy"):
        trusted = Policy(quorum=NONE) if policy is None else Policy.parse(fetch.read_file(policy, MAX_POLICY_BYTES))
    if log_key is not None:
        trusted.logs = tuple(one.key for one in as_keys(log_key).keys)
    with named("FILE"):
        parsed = TlogProof.parse(read(file))
    data = parsed.extra if entry is None else read(entry)
    if data is None:
        raise FormatError(Code.USAGE, "the proof does not hold the entry: give its bytes with --entry")
    answer: dict[str, Json] = {"index": parsed.index}
    try:
        checkpoint = verify(parsed, leaf_hash(data), trusted)
        if log_key is not None:
            require_signed(Note.parse(parsed.checkpoint), checkpoint, log_key)
    except VerificationError as error:
        answer |= {"valid": False, "error": str(error)}
        text = f"NOT PROVEN: {error.message}"
    else:
        keys = [one.key for one in open_note(parsed.checkpoint, {*trusted.logs, *trusted.witnesses.values()}).verified]
        seen = sorted(trusted.names_of(keys))
        answer |= {"valid": True, "origin": checkpoint.origin, "size": checkpoint.size, "witnesses": [*seen]}
        where = f"the log {checkpoint.origin}, under its checkpoint of {checkpoint.size}"
        by = f", which {', '.join(seen)} cosigned" if seen else ""
        text = f"PROVEN: entry {parsed.index} is in {where}{by}"
    if as_json:
        print_json({**answer, "entry": data.decode("utf-8", "backslashreplace")})
    else:
        say(text, data.decode("utf-8", "backslashreplace"))
    leave(Exit.FAIR if answer["valid"] else Exit.FAILED)
