"""`verifier replay SYSTEM FILE`: one command a system, made from what the system says of itself."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import click

from verifier.cli_common import JSON, leave, print_json, read, say
from verifier.systems import SYSTEMS
from verifier.systems.record import Replay, System
from verifier.terminal import printable
from verifier.verdict import Exit

_WIDTH: Final = 78
_FILE: Final = (
    "FILE holds the record, or - for standard input: one JSON object with exactly these fields (? optional). Hex is "
    "lower case, a decimal is a string, no key twice."
)
_JSON_PART: Final = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^",])*,?')


@click.group(epilog="Exit codes: 0 it agrees, 1 it differs, 3 unusable record, option or command line.")
def replay() -> None:
    """Replay another system's published record: do its results follow from its inputs?

    One command a system, each with a record format of its own: `verifier replay SYSTEM --help` teaches it, with an
    example, and says what a replay that passes does not prove. No replay says that a game was fair.

    \b
    Examples:
      verifier replay cube match.json
      verifier replay nard game.json --number-bytes 8 --json
      curl -s https://casino.example/bet/17 | jq .proof | verifier replay stake -
    """


def _paragraph(title: str, lines: list[str]) -> str:
    """Lines that click does not wrap."""
    return "\b\n" + "\n".join([title, *(f"  {line}" for line in lines)])


def _wrapped(text: str) -> list[str]:
    """JSON text in lines that end after a comma; together they are the same JSON."""
    lines = [""]
    for part in _JSON_PART.findall(text):
        if lines[-1] and len(lines[-1] + part) > _WIDTH:
            lines.append("")
        lines[-1] += part
    return lines


def _help(system: System) -> str:
    return "\n\n".join(
        [
            f"Replay a record of {system.title}.",
            system.about,
            _FILE,
            _paragraph("Record:", list(system.record)),
            _paragraph("Example:", _wrapped(system.example)),
            f"A replay that passes proves: {system.proves}.",
            _paragraph("It does not prove:", [f"- {line}" for line in system.does_not_prove]),
            "Exit 0: the record agrees. 1: it differs, and the first value that does is named. 3: unusable.",
        ]
    )


def _command(system: System) -> click.Command:
    def run(file: str, as_json: bool, **options: Any) -> None:
        given = {name.replace("_", "-"): value for name, value in options.items()}
        answer = system.replay(read(file), given)
        if as_json:
            print_json({"system": system.name, **answer.as_dict(), "does_not_prove": list(system.does_not_prove)})
        else:
            _print(system, answer)
        leave(Exit.FAIR if answer.ok else Exit.FAILED)

    command = JSON(run)
    for option in reversed(system.options):
        kind = click.Choice(option.values) if option.values else click.STRING
        text = f"{option.about[0].upper()}{option.about[1:]}."
        command = click.option(f"--{option.name}", type=kind, default=option.default, show_default=True, help=text)(
            command
        )
    command = click.argument("file")(command)
    return click.command(name=system.name, help=_help(system), short_help=f"{system.title}.")(command)


def _print(system: System, answer: Replay) -> None:
    click.echo(click.style(printable(answer.message), fg="green" if answer.ok else "red"))
    if answer.reading:
        say("  read as: " + ", ".join(f"{name} {value}" for name, value in answer.reading.items()))
    wrong = [row for row in answer.rows if not row.ok]
    for row in wrong[1:]:
        say(f"  {row.what}: expected {json.dumps(row.expected)}, found {json.dumps(row.found)}")
    say("It does not prove:" if answer.ok else "And no replay that passes would prove:")
    say(*(f"  - {line}" for line in system.does_not_prove))


for _system in SYSTEMS.values():
    replay.add_command(_command(_system))
