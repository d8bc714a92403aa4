"""The data directory of a service: how it is made, and the settings file in it, written out in full."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from beacon.settings import ChainSettings, Section, Settings

HEADER: Final = """\
fair-beacon: every setting, its unit and its default.
A variable of the environment wins over this file: BEACON_ORIGIN, BEACON_LISTEN__PORT; BEACON_CHAINS takes a JSON list.
An unknown key or BEACON_* variable stops the start. Times are milliseconds.\
"""


def render_settings(origin: str, chains: Sequence[ChainSettings] = ()) -> str:
    """The text of a `beacon.toml` with every key and what it means; `chains` in place of the default ones if given."""
    settings = Settings.model_construct(origin=origin)
    if chains:
        settings = settings.model_copy(update={"chains": list(chains), "default_chain": chains[0].name})
    return "\n".join([*_comment(HEADER), *_render(settings, "")]) + "\n"


def _render(model: BaseModel, prefix: str) -> Iterator[str]:
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, Section):
            yield from ("", *_comment(type(value).__doc__ or ""), f"[{prefix}{name}]")
            yield from _render(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], Section):
            for item in value:
                yield from ("", *_comment(type(item).__doc__ or ""), f"[[{prefix}{name}]]")
                yield from _render(item, f"{prefix}{name}.")
        else:
            yield from ("", *_comment(field.description or ""), _assignment(name, field, value))


def _assignment(name: str, field: FieldInfo, value: Any) -> str:
    if value is None:
        return f"# {name} = {_toml((field.examples or [''])[0])}"
    return f"{name} = {_toml(value)}"


def _toml(value: Any) -> str:
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)


def _comment(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from (f"# {part}" for part in textwrap.wrap(line, 110))
