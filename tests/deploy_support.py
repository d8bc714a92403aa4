"""The files of deploy/, and the metrics that the service has."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from beacon.settings import Settings
from beacon.web.application import build_web
from beacon.web.metrics_routes import registries_of

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
RUNBOOK = DEPLOY / "RUNBOOK.md"


def run(*words: object, code: int | None = 0, **options) -> str:
    """Standard output and error of a program; code: the exit code that is due, None for any."""
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=120, check=False, **options
    )
    assert code is None or done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def anchors(text: str) -> set[str]:
    """The anchors of a Markdown file's headings, as GitHub makes them."""
    headings = re.findall(r"(?m)^#{1,6} +(.+?) *$", re.sub(r"(?ms)^```.*?^```$", "", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def samples() -> dict[str, set[str]]:
    """The service's samples, as Prometheus stores them, and the labels of each."""
    found = {}
    for registry in registries_of(build_web(Settings.model_construct(origin="o"))):
        for family in registry.collect():
            labels = set(family._labelnames)
            if family.type == "histogram":
                found |= {
                    f"{family.name}_bucket": labels | {"le"},
                    f"{family.name}_sum": labels,
                    f"{family.name}_count": labels,
                }
            else:
                found[f"{family.name}_total" if family.type == "counter" else family.name] = labels
    return found
