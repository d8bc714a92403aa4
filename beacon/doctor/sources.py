"""What every setting is, and where that comes from: the file, a variable of the environment, or the default."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from beacon.relay_urls import public_name
from beacon.settings import Settings, config_file, set_by, setting_names

FILE: Final = "file"
DEFAULT: Final = "default"


@dataclass(frozen=True, slots=True)
class Stated:
    """key: as in `listen.port`, of chains `chains.0.name`. source: FILE, DEFAULT, or the name of a variable.

    value: as JSON has it. Of relays' URLs only what names the relay: a path may hold an access key.
    """

    key: str
    value: Any
    source: str


def stated(path: Path, settings: Settings) -> list[Stated]:
    """Every setting. settings: what `load_settings(path)` gave."""
    values = tomllib.loads(config_file(path).read_text(encoding="utf-8"))
    plain = [
        Stated(".".join(keys), _shown(_value(settings, keys)), _source(values, keys))
        for keys in setting_names()
        if keys[0] != "chains"
    ]
    return [*plain, *_chains(values, settings)]


def _chains(values: Mapping[str, Any], settings: Settings) -> Iterator[Stated]:
    variable, tables = set_by(("chains",)), values.get("chains", [])
    for number, chain in enumerate(settings.chains):
        for name in type(chain).model_fields:
            source = variable or (FILE if number < len(tables) and name in tables[number] else DEFAULT)
            value = getattr(chain, name)
            shown = [_relay(url) for url in value] if name == "relays" else _shown(value)
            yield Stated(f"chains.{number}.{name}", shown, source)


def _source(values: Any, keys: tuple[str, ...]) -> str:
    if (variable := set_by(keys)) is not None:
        return variable
    for key in keys:
        if key not in values:
            return DEFAULT
        values = values[key]
    return FILE


def _value(settings: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        settings = getattr(settings, key)
    return settings


def _shown(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _relay(url: str) -> str:
    name = public_name(url)
    return name if url.rstrip("/") == name else f"{name}/…"
