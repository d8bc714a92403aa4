"""How findings are shown, and the exit code that they make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from beacon.doctor.finding import Finding, Level, worst
from beacon.printing import say

EXIT_CODES: Final = {Level.OK: 0, Level.WARN: 1, Level.FAIL: 2}
EPILOG: Final = """\b
Exit codes:
  0  all is in order
  1  there are warnings
  2  something fails; or wrong usage
"""


def show(findings: Sequence[Finding]) -> None:
    """One line for each, and below what is wrong the line that mends it."""
    for finding in findings:
        mark = {Level.OK: "ok  ", Level.WARN: "WARN", Level.FAIL: "FAIL"}[finding.level]
        say(f"{mark} {finding.code}  {finding.about}: {finding.says}")
        if finding.fix:
            say(f"     fix: {finding.fix}")
    counts = [f"{_count(findings, level)} {level}" for level in Level]
    say(", ".join(counts))


def leave(findings: Sequence[Finding]) -> None:
    """End the command with the exit code of the worst."""
    if code := EXIT_CODES[worst(findings)]:
        raise click.exceptions.Exit(code)


def _count(findings: Sequence[Finding], level: Level) -> int:
    return sum(finding.level is level for finding in findings)
