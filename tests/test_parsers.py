"""One property of every parser: whatever the bytes, a value or an error of ours; and what has an encoder reads the same."""

import importlib
import inspect
import pkgutil
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import beacon
import verifier
from tests.parsers import ELSEWHERE, PARSERS, Parser, name_of

PIECES = (
    b"", b"\0", b"\n", b"\r\n", b"\t", b" ", b"0", b"1", b"-1", b"+", b"9" * 20, b"1e9", b"0.5", b"NaN", b"null", b"true", b'"', b"\\",
    b"\\u0000", b"\\ud800", b"{", b"}", b"[", b"]", b"[" * 40, b",", b":", b"=", b"/", b"%", b"@", b"\xff", b"\xc0\x80",
    b"\xe2\x80\xae", b"\xef\xbb\xbf", b"\x80", "\u0661".encode(), b"a" * 300,
)  # fmt: skip
NAMED = re.compile(r"(parse|read_lines|decode)(_|$)")


@st.composite
def near(draw, examples):
    """Bytes near to what is taken: pieces cut out, doubled, put in, a few times; or any bytes."""
    if not examples or draw(st.integers(0, 4)) == 0:
        return draw(st.binary(max_size=80))
    value = draw(st.sampled_from(examples))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(value)))
        end = min(len(value), start + draw(st.integers(0, 8)))
        value = value[:start] + draw(st.sampled_from([*PIECES, value[start:end] * 2])) + value[end:]
    return value


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
def test_a_parser_gives_a_value_that_reads_the_same_or_an_error_of_ours(name, data):
    parser = PARSERS[name]
    assert parser.holds(data.draw(near(parser.examples)))


def test_what_a_parser_may_not_do_is_seen():
    """Python's own readers are none: they raise what they like, or read the same from different texts."""
    assert Parser((), lambda data: bytes.fromhex(data.decode()), (), lambda value: value.hex().encode()).holds(b"ab")
    assert not Parser((), lambda data: bytes.fromhex(data.decode()), (), lambda value: value.hex().encode()).holds(
        b" AB "
    )
    with pytest.raises(ValueError):
        Parser((), int, ()).holds(b"x")


def public_parsers():
    """Every public function and method of the project that is named as a parser."""
    for package in (verifier, beacon):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name.endswith("__main__"):
                continue
            module = importlib.import_module(found.name)
            for owner in (module, *(one for one in vars(module).values() if inspect.isclass(one))):
                for name, one in vars(owner).items():
                    function = (
                        inspect.unwrap(getattr(one, "__func__", one))
                        if callable(getattr(one, "__func__", one))
                        else None
                    )
                    if NAMED.match(name) and inspect.isfunction(function) and function.__module__ == found.name:
                        yield name_of(function)


def test_every_parser_is_held():
    held = {name for parser in PARSERS.values() for name in parser.covers}
    there = set(public_parsers())
    assert len(there) > 40
    assert there - held - set(ELSEWHERE) == set(), "put it into tests/parsers.py"
    assert set(ELSEWHERE) - there == set()


@pytest.mark.parametrize("name", PARSERS)
def test_there_is_an_example_to_begin_from(name):
    assert PARSERS[name].examples


TAKEN = [
    name for name in PARSERS
    if name.startswith(("text", "bytes", "any", "body", "document", "fork", "pinned", "record", "relay's info", "service", "signed", "entry", "recipe", "chain", "transcript", "age", "timelock", "policy", "system", "settings", "add", "key", "line", "spool"))
]  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_the_examples_are_taken(name):
    parser = PARSERS[name]
    for example in parser.examples:
        parser.parse(example)
