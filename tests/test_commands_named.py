"""Every command line that the documentation, the deployment's files, help texts and messages name is one that there is."""

import re
import shlex
from pathlib import Path

import click
import pytest

from tests.readme_blocks import PROGRAMS

ROOT = Path(__file__).parent.parent
PROGRAM = r"(?:beacon|verifier)"
SPAN = re.compile(rf"`({PROGRAM} [^`]+)`")
LINE = re.compile(rf"^\s*(?:\$ |exec |ExecStart=(?:/\S+/)?)?({PROGRAM} [^|;&<>\n]*)", re.MULTILINE)
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
HELP = {"-h", "--help"}
SKIPPED = {".venv", "node_modules", "fixtures", ".git"}


def files(*patterns):
    found = (path for pattern in patterns for path in sorted(ROOT.glob(pattern)))
    return [path for path in found if not SKIPPED & set(path.parts)]


def named(path):
    """The command lines that a file names: in a document in code, elsewhere between backquotes or where they run."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    if path.suffix == ".py":
        return [" ".join(part.split()) for part in SPAN.findall(text)]
    if path.suffix != ".md":
        return LINE.findall(text)
    fenced = [line for block in FENCE.findall(text) for line in LINE.findall(block)]
    return [*fenced, *(" ".join(part.split()) for part in SPAN.findall(FENCE.sub("", text)))]


def words(line):
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # a quotation that goes on in the next line
        return line.split()


def fault(line):
    """What is wrong with a command line, None if nothing is. Capitals and {} stand for what the reader puts in."""
    program, *rest = words(line)
    command, waiting = PROGRAMS[program], list(rest)
    context = click.Context(command)
    while isinstance(command, click.Group) and waiting and re.fullmatch(r"[a-z][a-z-]*,?", waiting[0]):
        name = waiting.pop(0)
        inner = command.get_command(context, name.rstrip(","))
        if inner is None:
            return f"no command {name}"
        command, context = inner, click.Context(inner, parent=context)
        if name.endswith(","):
            return None
    options = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | HELP
    for word in waiting:
        option = word.partition("=")[0].rstrip(",.:;)")
        if re.fullmatch(r"--?[a-z][a-z-]*", option) and option not in options:
            return f"no option {option}"
    return None


DOCUMENTS = files("*.md", "beacon/**/*.md", "verifier/**/*.md", "deploy/**/*.md")
OTHERS = files("beacon/**/*.py", "verifier/**/*.py", "deploy/**/*.service", "deploy/**/*.timer", "deploy/**/*.y*ml")


@pytest.mark.parametrize(
    "path", [path for path in (*DOCUMENTS, *OTHERS) if named(path)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_every_command_line_that_is_named_is_one(path):
    assert {line: why for line in named(path) if (why := fault(line))} == {}


def test_what_is_looked_at_is_there():
    counts = {str(path.relative_to(ROOT)): len(named(path)) for path in (*DOCUMENTS, *OTHERS)}
    assert counts["README.md"] > 50
    assert counts["beacon/COMMANDS.md"] > 5
    assert counts["beacon/cli.py"] > 0


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("beacon serve --dir X", None),
        ("beacon hosts add alice --sandbox", None),
        ("beacon serv --dir X", "no command serv"),
        ("beacon hosts ad alice", "no command ad"),
        ("beacon serve --direction X", "no option --direction"),
        ("beacon hosts rotate NAME --token ID --graze 1d", "no option --graze"),
        ("verifier replay SYSTEM --help", None),
        ("verifier check a.json --log-key=x", None),
    ],
)
def test_a_command_line_that_is_none_is_found(line, why):
    assert fault(line) == why
