"""The witnesses: each is asked to cosign what it has cosigned before, which tells who it is and how far it has seen.

It is never brought further than it was. One that has cosigned nothing is asked for the newest checkpoint, as at every
start of the service: that tells whether it knows the log. Nothing is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlite_utils import Database

from beacon.clock import Clock
from beacon.doctor.databases import moment
from beacon.doctor.finding import Finding, fine, found
from beacon.log import cosignatures, reads
from beacon.settings import Settings
from beacon.store.errors import StoreError
from beacon.witness.client import Answer, Client, Result
from beacon.witness.configured import Asked, Configured
from verifier.note import Note, VerifierKey
from verifier.tlog_proof import add_checkpoint_request

TRIES: Final = 4
LATE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class _Known:
    """What the log holds: its size, what a witness has cosigned last (0: nothing), and since when (ms) more."""

    size: int
    cosigned: int
    since: int | None


async def examine(settings: Settings, asked: Asked, clock: Clock) -> list[Finding]:
    """Every witness of the policy, and whether those that answer make its quorum. log.db is there and can be read."""
    client = Client(settings.witnesses.timeout_ms / 1000)
    try:
        found_ = await asyncio.gather(*(_examine(settings, one, client, clock) for one in asked.witnesses))
    except StoreError:
        return []  # told of with the log
    finally:
        await client.close()
    findings = [finding for _, several in found_ for finding in several]
    good = [one.name for one, (answers, _) in zip(asked.witnesses, found_, strict=True) if answers]
    if not asked.policy.satisfied(good):
        says = f"{len(good)} of {len(asked.witnesses)} can cosign, and the quorum is {asked.policy.quorum}"
        fix = "mend the witnesses above, or name others in the policy"
        findings.append(found("quorum-missing", settings.witnesses.policy, says, fix))
    return findings


async def _examine(settings: Settings, one: Configured, client: Client, clock: Clock) -> tuple[bool, list[Finding]]:
    """Whether it can be counted on, and what there is to say of it."""
    known = moment(settings.log_db, lambda db: _known(db, one.key))
    old = known.cosigned
    for _ in range(TRIES):
        size = old or known.size
        note = moment(settings.log_db, lambda db, size=size: reads.checkpoint_note(db, size))  # type: ignore[misc]
        if note is None:
            return False, [_disagrees(one, f"it has cosigned size {size}, of which there is no checkpoint here")]
        answer = await client.add_checkpoint(
            one.url, add_checkpoint_request(old, [], note), Note.parse(note).text, one.key
        )
        if answer.result is not Result.CONFLICT or answer.size is None or answer.size == old:
            break
        old = answer.size
        known = moment(settings.log_db, lambda db: _known(db, one.key))
        if old > known.size:
            return False, [_ahead(one, old, known.size)]
    if answer.result is Result.COSIGNED:
        return True, list(_lag(one, known, clock))
    return False, [_refused(settings, one, answer)]


def _known(db: Database, key: VerifierKey) -> _Known:
    (size,) = db.execute("SELECT max(size) FROM checkpoints").fetchone()
    cosigned = cosignatures.newest_sizes(db).get(key, 0)
    (since,) = db.execute("SELECT min(time) FROM checkpoints WHERE size > ?", [cosigned]).fetchone()
    return _Known(size, cosigned, since)


def _lag(one: Configured, known: _Known, clock: Clock) -> Iterator[Finding]:
    lag = known.size - known.cosigned
    late = 0 if known.since is None else clock.now() - known.since
    if not known.cosigned and known.size == 1:
        yield fine("witness", one.name, "knows this log; the service has not asked it yet")
    elif late > LATE_MS:
        fix = "look at /readyz and the service's log; it catches up once the service runs and reaches it"
        yield found("witness-behind", one.name, f"{lag} entries are not cosigned, for {late / 1000:.0f} s", fix)
    else:
        yield fine("witness", one.name, f"signs with its key, up to size {known.cosigned} of {known.size}")


def _ahead(one: Configured, seen: int, size: int) -> Finding:
    says = f"it has seen size {seen}, and the log has size {size}: log.db is an older copy"
    fix = "put the newest log.db back, with its log.db-wal and log.mark; going on from here signs a second history"
    return found("witness-ahead", one.name, says, fix)


def _disagrees(one: Configured, says: str) -> Finding:
    fix = "put the right log.db back; `beacon witness forks` at the witness shows what it has seen"
    return found("witness-disagrees", one.name, says, fix)


def _refused(settings: Settings, one: Configured, answer: Answer) -> Finding:
    detail = f"{answer.result}{f' ({answer.detail})' if answer.detail else ''}"
    match answer.result:
        case Result.UNPROVEN | Result.CONFLICT:
            return _disagrees(one, f"it takes no proof that this log continues what it has seen: {detail}")
        case Result.REFUSED:
            fix = f"give {settings.log_vkey} to the witness: beacon witness add-log {settings.log_vkey.name} there"
            return found("witness-unknown-log", one.name, f"does not know this log or its key: {detail}", fix)
        case Result.INVALID:
            fix = f"put its right key into {settings.witnesses.policy}, or take it out"
            return found("witness-other-key", one.name, detail, fix)
        case _:
            return found("witness-unreachable", one.name, detail, f"curl -sSi {one.url}/add-checkpoint -d ''")
