"""Wires the service together, and does nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from beacon import logs
from beacon.clock import Clock
from beacon.datadir import followed_chains, require_databases
from beacon.keys import master
from beacon.keys.log import log_signer
from beacon.log.log import Log
from beacon.metrics import CommitTimer
from beacon.permissions import refuse_exposed
from beacon.rounds.fetcher import Policy
from beacon.rounds.rounds import Followed, Rounds
from beacon.rounds.spool import Spool
from beacon.rounds.store_protocol import Put
from beacon.rounds.verify import RoundVerifier
from beacon.sessions.answers import Answers
from beacon.sessions.book import Book
from beacon.sessions.changes import Changes
from beacon.sessions.context import Context
from beacon.sessions.custody import Custody
from beacon.sessions.doubt import ClockDoubt, machine_ms
from beacon.sessions.joining import Joining
from beacon.sessions.keeper import Keeper
from beacon.sessions.service import Sessions
from beacon.sessions.tally import Tally
from beacon.sessions.transcripts import Transcripts
from beacon.sessions.waiting import Waiting
from beacon.sessions.worker import Worker
from beacon.settings import ConfigurationError, Settings, WitnessSettings, read_key
from beacon.store.hosts import HostStore
from beacon.store.private import PrivateStore
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.reader import Reader
from beacon.store.rounds import SqliteRounds
from beacon.store.webhooks import WebhookStore
from beacon.store.writer import Writer
from beacon.web.application import build_web
from beacon.web.measured import MEASURED, Measured
from beacon.web.services import SERVICES, Chain, Services
from beacon.webhooks.webhooks import Webhooks
from beacon.witness.configured import Asked, load_policy
from beacon.witness.witnesses import Nobody, Published, Witnesses

_logger = logs.get(__name__)


def create_app(
    settings: Settings,
    clock: Clock,
    *,
    policy: Policy | None = None,
    verifier: RoundVerifier | None = None,
    monotonic: Callable[[], int] = machine_ms,
) -> web.Application:
    """The whole service as one aiohttp application; databases open at its start and close at its cleanup.

    policy, verifier, monotonic: how chains are followed, where rounds are verified, and the clock that the clock is
    compared with (ms), for tests.
    Raises ConfigurationError at once for chains, key files, databases or witnesses that are not in order, and for files
    that others reach. The start raises AlreadyOpen, SchemaRefused, LogDamaged, LogBehind.
    """
    refuse_exposed(settings)
    signer = log_signer(settings)
    master_key = read_key(settings.master_key)
    chains = followed_chains(settings)
    require_databases(settings)
    asked = load_policy(settings.witnesses.policy, signer.vkey) if settings.witnesses.policy else None
    sandbox_only = {chain.name for chain in settings.chains if chain.sandbox_only}
    app = build_web(settings)

    async def run(app: web.Application) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            commits, private_commits, tally = CommitTimer(), CommitTimer(), Tally()
            private = await asyncio.to_thread(Writer, settings.private_db, PRIVATE_SCHEMA, step=private_commits.step)
            stack.push_async_callback(private.aclose)
            private_reader = Reader(settings.private_db)
            stack.callback(private_reader.close)
            store = PrivateStore(private, private_reader, clock)
            book = Book()
            log = await asyncio.to_thread(
                Log.open,
                settings.log_db,
                signer,
                clock,
                [book, tally],
                mark=settings.log_mark,
                keep=store.keep,
                step=commits.step,
            )
            stack.push_async_callback(asyncio.to_thread, log.close)
            published = await stack.enter_async_context(_witnessed(log, clock, settings.witnesses, asked))

            rounds = Rounds(
                [Followed(chains[chain.name], tuple(chain.relays)) for chain in settings.chains],
                SqliteRounds(log.writer, log.reader, clock, Put),
                clock,
                policy=policy,
                verifier=verifier,
                spool=Spool(settings.spool),
            )
            custody = Custody(master_key, store)
            if not await custody.owns():
                raise ConfigurationError(master.refusal(settings))
            await rounds.start()
            stack.push_async_callback(rounds.stop)
            doubt = ClockDoubt(rounds, clock, monotonic)
            worker = Worker()
            stack.callback(worker.close)
            transcripts = Transcripts(log, settings.origin)
            stack.callback(transcripts.close)
            context = Context(
                book=book,
                log=log,
                rounds=rounds,
                custody=custody,
                transcripts=transcripts,
                clock=clock,
                doubt=doubt,
                worker=worker,
                chains=chains,
            )
            sessions = Sessions(
                context,
                Joining(master_key, custody.older(await store.join_keys())),
                origin=settings.origin,
                sandbox_only=sandbox_only,
                default_chain=settings.default_chain,
                defaults=settings.sessions,
                room=settings.witnesses.room_ms if asked else 0,
            )
            webhooks = Webhooks(log, WebhookStore(private, private_reader, clock), master_key, clock, settings.webhooks)
            book.listen(webhooks.told)
            await webhooks.start()
            stack.push_async_callback(webhooks.stop)
            changes = Changes()
            book.listen(changes.told)
            keeper = Keeper(context)
            keeper.start()
            keeping = await stack.enter_async_context(_running(keeper))

            app[SERVICES] = Services(
                sessions=sessions,
                waiting=Waiting(context, changes),
                answers=Answers(context, store),
                log=log,
                vkey=str(signer.vkey),
                rounds=rounds,
                hosts=HostStore(private, private_reader, clock),
                webhooks=webhooks,
                chains=tuple(Chain(name, info, name in sandbox_only) for name, info in chains.items()),
                settings=settings,
                stopped=lambda: log.writer.stopped or private.stopped or _failure(keeping),
                trouble=lambda: log.writer.trouble or private.trouble,
                witnesses=published,
            )
            app[MEASURED] = Measured(
                writers={"log": (log.writer, commits), "private": (private, private_commits)},
                open_sessions=book.all_open,
                tally=tally,
                settled=context.settled,
                log_size=lambda: log.latest().size,
                directory=settings.data_dir,
            )
            _logger.info("started", origin=settings.origin, size=log.latest().size, chains=sorted(chains))
            yield

    app.cleanup_ctx.append(run)
    return app


@asynccontextmanager
async def _witnessed(
    log: Log, clock: Clock, settings: WitnessSettings, asked: Asked | None
) -> AsyncIterator[Published]:
    """Who cosigns the log while the block runs. Raises LogBehind."""
    if asked is None:
        yield Nobody()
        return
    witnesses = Witnesses(asked, log, clock, settings)
    await witnesses.start()
    try:
        yield witnesses
    finally:
        await witnesses.stop()


@asynccontextmanager
async def _running(keeper: Keeper) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(keeper.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


def _failure(task: asyncio.Task[None]) -> str | None:
    if not task.done() or task.cancelled():
        return None
    return f"what keeps the sessions' deadlines has ended: {task.exception()!r}"
