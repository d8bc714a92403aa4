"""The texts of other systems' records for the TypeScript verifier: `python -m tests.systems_formats` writes them from the Python."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from verifier.systems import SYSTEMS

FILE = Path(__file__).parent.parent / "verifier" / "web" / "src" / "systems" / "formats.json"


def formats() -> str:
    listed: list[dict[str, Any]] = [
        {
            "name": system.name,
            "title": system.title,
            "about": system.about,
            "record": list(system.record),
            "proves": system.proves,
            "does_not_prove": list(system.does_not_prove),
            "options": [
                {"name": one.name, "default": one.default, "about": one.about, "values": list(one.values)}
                for one in system.options
            ],
            "example": system.example,
        }
        for system in SYSTEMS.values()
    ]
    return json.dumps(listed, ensure_ascii=False, indent=2) + "\n"


def main() -> None:
    FILE.write_text(formats(), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
