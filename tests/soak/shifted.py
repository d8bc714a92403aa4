"""`beacon` with its clock set ahead: `python -m tests.soak.shifted OFFSET_MS COMMAND...`."""

import sys

from beacon.__main__ import main
from beacon.clock import ShiftedClock, SystemClock

if __name__ == "__main__":
    offset = int(sys.argv.pop(1))
    unchanged = SystemClock.now
    shifted = ShiftedClock(offset, type("Base", (), {"now": unchanged})())
    SystemClock.now = lambda self: shifted.now()
    sys.argv[0] = "beacon"
    main()
