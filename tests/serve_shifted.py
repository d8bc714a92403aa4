"""The real service in a process of its own, its clock set ahead or behind: `python -m tests.serve_shifted DIR OFFSET_MS`."""

import asyncio
import sys
from pathlib import Path

from beacon import logs
from beacon.app import create_app
from beacon.clock import ShiftedClock
from beacon.settings import load_settings
from beacon.web.server import serve


def main():
    settings = load_settings(Path(sys.argv[1]))
    logs.configure(settings.logging.level, settings.logging.format)
    app = create_app(settings, ShiftedClock(int(sys.argv[2])))
    announce = lambda url: print(f"listening on {url}", flush=True)  # noqa: E731
    reason = asyncio.run(serve(app, settings.listen, announce, settings.metrics))
    sys.exit(reason)


if __name__ == "__main__":
    main()
