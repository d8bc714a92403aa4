"""Other programs' error messages in plain words: what pydantic says of values, and Python of files and addresses."""

from __future__ import annotations

import errno
import os
import re
import socket
from typing import Final

OPERATORS: Final = frozenset(
    {
        errno.EACCES,
        errno.EEXIST,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    }
)
"""What is wrong with a path that somebody gave; a full or failing disk is none of these."""

_ADDRESS: Final = re.compile(r"address(?:es)?(?: out of)? \[?\('(?P<host>[^']*)', (?P<port>\d+)")

_PHRASES: Final = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"^(?:Value|Assertion) error, (.*)", r"\1"),
        (r"^Field required$", "it is missing"),
        (r"^Extra inputs are not permitted$", "there is no such field"),
        (r"^Keys should be strings$", "its keys are strings"),
        (r"^Input is not a valid path.*", "a path is due"),
        (r"^Input should be (?:a valid )?(?:dictionary|mapping)\b.*", "{table} is due"),
        (r"^Input should be (?:a valid dictionary or )?(?:an )?instance of .*", "{table} is due"),
        (
            r"^Input should be a valid integer\b.*|^Unable to parse input string as an integer.*",
            "a whole number is due",
        ),
        (r"^Input should be a valid number\b.*|^Input should be a finite number$", "a number is due"),
        (r"^Input should be a valid boolean\b.*", "true or false is due"),
        (r"^Input should be a valid (\w+)\b.*", r"a \1 is due"),
        (r"^Input should be greater than or equal to (\S+)$", r"at least \1 is due"),
        (r"^Input should be less than or equal to (\S+)$", r"at most \1 is due"),
        (r"^Input should be (.*)", r"\1 is due"),
        (r"^\w+ should have (at (?:least|most) \d+ \w+?)s? after validation, not (\d+)$", r"\1(s) are due, not \2"),
        (r"^\w+ should have (at (?:least|most) \d+ \w+?)s?$", r"\1(s) are due"),
        (r"^String should match pattern .*", "it has characters or a length that it cannot have"),
    )
)


def plain(message: str, table: str = "an object") -> str:
    """What a validation error says, in words that need no knowledge of pydantic; words of ours stay as they are.

    table: what a mapping is called where the reader wrote it.
    """
    for pattern, words in _PHRASES:
        if pattern.match(message):
            return pattern.sub(words, message).replace("{table}", table)
    return message


def of_system(error: OSError, port_advice: str = "choose another port (0 takes a free one)") -> str:
    """An OSError as one sentence, without its number and class. port_advice: what to do when the port is taken."""
    if (address := _ADDRESS.search(str(error))) is not None:
        host, port = address["host"], address["port"]
        if error.errno == errno.EADDRINUSE:
            return f"port {port} of {host} is taken: {port_advice}"
        if error.errno == errno.EACCES:
            return f"port {port} of {host} is not for this user: {port_advice}"
        return f"{host} is no address of this machine, or not one to listen on"
    if isinstance(error, socket.gaierror):
        return f"there is no address of that name: {error.strerror}"
    if error.strerror is None:
        return str(error) or "the system refused an operation"
    places = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    return ": ".join([*places, error.strerror])


def is_operators(error: OSError) -> bool:
    """Whether the error is of what somebody gave, a path or an address, and not of the machine."""
    if _ADDRESS.search(str(error)) is not None or isinstance(error, socket.gaierror):
        return True
    return error.filename is not None and error.errno in OPERATORS


def of_error(error: BaseException) -> str:
    """The message of an error of ours, without the class names of the errors behind it."""
    text, behind = str(error), error
    while (cause := behind.__cause__) is not None:
        text = text.replace(f"{type(cause).__name__}: ", "")
        behind = cause
    return text
