"""What of the documentation is made from the code: `python -m tests.readme_blocks` writes it anew.

In README.md and beacon/REFERENCE.md a table stands between `<!-- begin NAME -->` and `<!-- end NAME -->`: errors, settings, routes,
pages, metrics, findings or systems. Each program's COMMANDS.md is made whole: the help of every command.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from aiohttp.web import AbstractRoute
from click.testing import CliRunner

import beacon.cli
import verifier.cli
from beacon.doctor.finding import KNOWN
from beacon.errors import PROBLEMS
from beacon.settings import Settings, setting_names
from beacon.web.application import build_web
from beacon.web.metrics_routes import registries_of
from beacon.web.pages.application import is_page
from verifier.systems import SYSTEMS

ROOT = Path(__file__).parent.parent
WITH_BLOCKS = (ROOT / "README.md", ROOT / "beacon" / "REFERENCE.md")
BLOCK = re.compile(r"(<!-- begin (?P<name>[^>]+?) -->\n)(?P<body>.*?)(<!-- end (?P=name) -->)", re.DOTALL)
PROGRAMS: dict[str, click.Command] = {"beacon": beacon.cli.main, "verifier": verifier.cli.main}


def errors() -> str:
    rows = ["| code | status | rule | retry | what it means | what to do |", "|---|---|---|---|---|---|"]
    rows += [
        f"| `{code}` | {row.status} | {row.rule or ''} | {'yes' if row.retryable else 'no'} | {row.title} | {row.next} |"
        for code, row in PROBLEMS.items()
    ]
    return "\n".join(rows) + "\n"


def routes() -> str:
    rows = ["| method | path | what it does |", "|---|---|---|"]
    rows += [f"| {route.method} | {_explained(route)} |" for route in _routes() if not is_page(route)]
    return "\n".join(rows) + "\n"


def pages() -> str:
    rows = ["| page | what it shows |", "|---|---|"]
    rows += [f"| {_explained(route)} |" for route in _routes() if is_page(route)]
    return "\n".join(rows) + "\n"


def _routes() -> list[AbstractRoute]:
    return [one for one in build_web(Settings.model_construct(origin="o")).router.routes() if one.method != "HEAD"]


def _explained(route: AbstractRoute) -> str:
    assert route.resource
    return f"`{route.resource.canonical}` | {(route.handler.__doc__ or '').strip().splitlines()[0]}"


def metrics() -> str:
    rows = ["| name | kind | labels | meaning |", "|---|---|---|---|"]
    for registry in registries_of(build_web(Settings.model_construct(origin="o"))):
        for family in registry.collect():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = ", ".join(f"`{label}`" for label in family._labelnames)
            rows.append(f"| `{name}` | {family.type} | {labels} | {family.documentation} |")
    return "\n".join(rows) + "\n"


def settings() -> str:
    rows = ["| key | meaning |", "|---|---|"]
    rows += [f"| `{'.'.join(path)}` | {_description(path)} |" for path in setting_names()]
    return "\n".join(rows) + "\n"


def findings() -> str:
    rows = ["| code | level | what it means |", "|---|---|---|"]
    rows += [f"| `{code}` | {level} | {means} |" for code, (level, means) in KNOWN.items()]
    return "\n".join(rows) + "\n"


def systems() -> str:
    rows = ["| system | what it is | a replay that passes proves |", "|---|---|---|"]
    for name, system in SYSTEMS.items():
        what = f"{system.title}. {system.about}".replace("|", "\\|")
        rows.append(f"| `{name}` | {what} | {system.proves} |")
    return "\n".join(rows) + "\n"


def _description(path: tuple[str, ...]) -> str:
    model: Any = Settings
    for name in path[:-1]:
        annotation = model.model_fields[name].annotation
        model = getattr(annotation, "__args__", [annotation])[0]
    return str(model.model_fields[path[-1]].description)


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command and group that has a help text, by the words that call it."""
    waiting: list[tuple[str, click.Command | None]] = list(PROGRAMS.items())
    while waiting:
        words, command = waiting.pop(0)
        assert command is not None, words
        yield words, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            names = command.list_commands(context)
            waiting += [(f"{words} {name}", command.get_command(context, name)) for name in names]


def help_of(words: str) -> str:
    program, *rest = words.split()
    result = CliRunner().invoke(PROGRAMS[program], [*rest, "--help"], prog_name=program, terminal_width=100)
    assert result.exit_code == 0, result.output
    return f"```text\n{result.output.rstrip()}\n```\n"


def commands_page(program: str) -> str:
    """A program's COMMANDS.md; the systems of `verifier replay` are left to its own help, one being like the other."""
    shown = [
        words for words, _ in commands() if words.split()[0] == program and not words.startswith("verifier replay ")
    ]
    parts = [f"# `{program}`, command by command\n\nMade from the code: what `--help` prints.\n"]
    parts += [f"## {words}\n\n{help_of(words)}" for words in sorted(shown)]
    return "\n".join(parts)


def block(name: str) -> str:
    """What belongs into the block of a name. KeyError for a name that means nothing."""
    tables = {
        "errors": errors,
        "routes": routes,
        "pages": pages,
        "metrics": metrics,
        "findings": findings,
        "settings": settings,
        "systems": systems,
    }
    return tables[name]()


def render(text: str) -> str:
    """The text with every block as the code has it now."""
    return BLOCK.sub(lambda match: match[1] + block(match["name"]) + match[4], text)


def pages_of_commands() -> dict[Path, str]:
    return {ROOT / program / "COMMANDS.md": commands_page(program) for program in PROGRAMS}


def main() -> None:
    for path in WITH_BLOCKS:
        path.write_text(render(path.read_text(encoding="utf-8")), encoding="utf-8")
    for path, text in pages_of_commands().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
