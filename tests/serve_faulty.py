"""The real service in a process of its own, whose machine fails as the file DIR/faults.json says, read again each time.

    python -m tests.serve_faulty DIR OFFSET_MS [FILES]

It may open so many FILES.

| name | what happens |
|---|---|
| step | the clock is so many ms further than OFFSET_MS |
| free | so many bytes are free on the disk |
| readonly | SQLite lets nothing be written (`PRAGMA query_only`) |
| stall | a commit does not return for as long as this is true |
"""

import asyncio
import json
import os
import resource
import sqlite3
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from beacon import logs
from beacon.app import create_app
from beacon.clock import ShiftedClock
from beacon.settings import load_settings
from beacon.web.server import serve

LOOK_SECONDS = 0.01
statvfs, connect = os.statvfs, sqlite3.connect


def fault(folder, name):
    path = folder / "faults.json"
    return json.loads(path.read_text()).get(name) if path.exists() else None


def set_faults(folder, **faults):
    """What fails from now on; nothing without names."""
    beside = folder / "faults.new"
    beside.write_text(json.dumps(faults))
    beside.replace(folder / "faults.json")


class Stepped:
    def __init__(self, folder, offset):
        self.folder, self.clock = folder, ShiftedClock(offset)

    def now(self):
        return self.clock.now() + (fault(self.folder, "step") or 0)


class Failing(sqlite3.Connection):
    """A writer's connection."""

    folder = None

    def execute(self, sql, *parameters):
        run = super().execute
        if sql == "BEGIN IMMEDIATE":
            run(f"PRAGMA query_only = {int(bool(fault(self.folder, 'readonly')))}")
        while sql == "COMMIT" and fault(self.folder, "stall"):
            time.sleep(LOOK_SECONDS)
        return run(sql, *parameters)


def main():
    folder, offset = Path(sys.argv[1]), int(sys.argv[2])
    Failing.folder = folder
    if sys.argv[3:]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[3]),) * 2)

    def free(path):
        found, free = statvfs(path), fault(folder, "free")
        return found if free is None else SimpleNamespace(f_bavail=free // found.f_frsize, f_frsize=found.f_frsize)

    os.statvfs = free
    sqlite3.connect = lambda name, **options: connect(
        name, **({} if "uri" in options else {"factory": Failing}), **options
    )
    settings = load_settings(folder)
    logs.configure(settings.logging.level, settings.logging.format)
    app = create_app(settings, Stepped(folder, offset))
    announce = lambda url: print(f"listening on {url}", flush=True)  # noqa: E731
    sys.exit(asyncio.run(serve(app, settings.listen, announce, settings.metrics)))


if __name__ == "__main__":
    main()
