"""A process that writes to a log until it dies. It tells its parent, through a pipe, of every append it was answered."""

import asyncio
import os
import resource

from beacon.store.errors import AlreadyOpen, StoreError
from tests.fault_support import killer
from tests.log_support import Clock, contributions, open_log

WRITERS = 4


def write(path, pipe, *, kill_at=None, nth=1, limit=None, appends=10_000):
    """Append from several tasks; SIGKILL this process at the nth step named `kill_at`, counted from the opening.

    limit: the most bytes a file may have. Sends ("done", index, entry) for each answer, at last ("end", why it stopped).
    """
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    async def writer(log, name):
        for number in range(appends):
            for done in await log.append(contributions(f"{name}.{number}", f"{name}.{number}.b")):
                pipe.send(("done", done.index, done.entry))

    async def main():
        log = open_log(path, clock=Clock(), step=killer(kill_at, nth))
        pipe.send(("open", log.latest().size, None))
        try:
            await asyncio.gather(*(writer(log, name) for name in range(WRITERS)))
        except StoreError:
            pipe.send(("end", log.writer.stopped, None))
            os._exit(0)

    asyncio.run(main())


def hold(path, pipe):
    """Open the log, say so, and keep it until told to let go, or killed."""
    try:
        log = open_log(path)
    except AlreadyOpen:
        pipe.send("already open")
        return
    pipe.send("open")
    pipe.recv()
    log.close()
