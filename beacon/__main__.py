"""`beacon`, and `python -m beacon`. Where the service's own dependencies are not installed, it says so."""

from __future__ import annotations

import sys
from typing import Final

EXTRA: Final = frozenset(
    {
        "aiohttp",
        "apscheduler",
        "jinja2",
        "prometheus_client",
        "pydantic",
        "pydantic_settings",
        "sqlite_utils",
        "structlog",
    }
)
"""What the extra [service] of the distribution brings, by the names that are imported."""


def main() -> None:
    """Run the command line. Exit code 2 without the extra [service]."""
    try:
        from beacon.cli import main as command  # noqa: PLC0415 - what it imports may be missing

        command(prog_name="beacon")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        sys.stderr.write("the service is not installed: pip install 'fair-beacon[service]'\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
