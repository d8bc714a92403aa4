"""Structured logs on standard error: one event a line, with the request's id.

Nobody hands bodies, tokens or seeds to a log. Two nets are below that rule: values under telling names are masked, and
tracebacks are printed without local variables. What others wrote can neither begin a line nor command a terminal:
control and direction characters are escaped wherever they stand.
"""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import structlog
from structlog.types import EventDict, ExcInfo, Processor, WrappedLogger

from verifier.terminal import printable

SENSITIVE: Final = frozenset(
    {"authorization", "body", "cookie", "key", "log_key", "master_key", "nonce", "password", "secret", "seed", "token"}
)
MASK: Final = "[not logged]"

_access_stream: TextIO | None = None


def configure(level: str, style: str, stream: TextIO | None = None) -> None:
    """Send structlog's and the standard library's records to `stream` (standard error).

    level: debug, info, warning or error. style: "json", or "console" for people.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _mask,
    ]
    renderer: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False), _escape_line]
        if style == "json"
        else [_escape_values, structlog.dev.ConsoleRenderer(colors=False, exception_formatter=_indented)]
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    global _access_stream  # noqa: PLW0603 - set with the rest of the process's logging
    _access_stream = handler.stream if style == "json" else None
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Its access lines hold whatever a client puts into a path; the web layer writes its own.
    logging.getLogger("aiohttp.access").setLevel(logging.CRITICAL)
    # Its parser errors quote the raw bytes of a request, tokens and bodies included.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL + 1)
    # It tells of every wake, and warns of each one that comes while work is under way, which is meant.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def access(name: str, **fields: Any) -> None:
    """Log one request: the line that `get(name).info("request", ...)` would write, at a fifth of its cost.

    It takes no value of a client's making, so there is nothing to mask.
    """
    if _access_stream is None:
        get(name).info("request", **fields)
    elif logging.getLogger(name).isEnabledFor(logging.INFO):
        stamp = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        fields |= structlog.contextvars.get_contextvars()
        line = {**fields, "event": "request", "level": "info", "logger": name, "timestamp": stamp}
        _access_stream.write(printable(json.dumps(line, ensure_ascii=False)) + "\n")
        _access_stream.flush()


def get(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of a module; its events are short phrases, everything else is a named value."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def _mask(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return _masked(event)


def _masked(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _masked_value(str(name), value) for name, value in values.items()}


def _masked_value(name: str, value: Any) -> Any:
    if name.lower() in SENSITIVE:
        return MASK
    return _masked(value) if isinstance(value, dict) else value


def _escape_line(_logger: WrappedLogger, _method: str, line: Any) -> str:
    """A line of JSON means the same when a character of its strings is escaped."""
    return printable(line)


def _escape_values(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {printable(name): value if name == "exc_info" else _escaped(value) for name, value in event.items()}


def _escaped(value: Any) -> str:
    return printable(value if isinstance(value, str) else repr(value))


def _indented(stream: TextIO, exc_info: ExcInfo) -> None:
    """A traceback of which no line begins as a record does, whatever the exception says."""
    traceback = io.StringIO()
    structlog.dev.plain_traceback(traceback, exc_info)
    stream.write("".join(f"\n    {printable(line)}" for line in traceback.getvalue().strip("\n").split("\n")))
