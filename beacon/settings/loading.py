"""From a `beacon.toml` and the environment to settings: everything that is wrong is said at once, and by its place.

A typo never passes silently: an unknown key of the file and an unknown `BEACON_*` variable both stop the start, with
the nearest name that exists.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsError

from beacon.settings.errors import ConfigurationError
from beacon.settings.model import (
    DISAGREEMENT,
    ENV_DELIMITER,
    ENV_PREFIX,
    Section,
    Settings,
    contradictions,
    default_chains,
)
from beacon.wording import plain

CONFIG_NAME: Final = "beacon.toml"


class _FromFile(Settings):
    """The settings as they were without the environment."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The file alone."""
        _ = settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)


def config_file(path: Path) -> Path:
    """The `beacon.toml` that is meant by its own path, or by that of its directory."""
    return path / CONFIG_NAME if path.is_dir() else path


def load_settings(path: Path) -> Settings:
    """Settings of a `beacon.toml`, or of the directory that holds it, under the environment's `BEACON_*`.

    Raises ConfigurationError: one line for everything that is wrong, which names the file or variable and the key.
    """
    file = config_file(path)
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}. Make a data directory with `beacon init`.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{file}: not TOML: {error}") from error
    problems = list(_problems(file, values))
    if problems:
        raise ConfigurationError("\n".join(problems))
    return _with_absolute_paths(Settings(**values), file.resolve().parent)


def _problems(file: Path, values: Mapping[str, Any]) -> Iterator[str]:
    """Everything that is wrong with the file's values and the environment, none of it twice."""
    yield from (f"{file}: {problem}" for problem in _unknown_keys(values, Settings))
    yield from _unknown_variables(os.environ)
    known = _known(values, Settings)
    wrong: set[str] = set()
    try:
        Settings(**known)
    except SettingsError as error:
        yield _no_json(error)
        wrong.add("chains")
        try:
            _FromFile(**known)
        except ValidationError as more:
            found = [one for one in _explained(more) if set_by(one[0]) is None]
            yield from (f"{_place(file, keys)}: {message}" for keys, message in found)
    except ValidationError as error:
        for keys, message in _explained(error):
            wrong.add(str(keys[0]))
            yield f"{_place(file, keys)}: {message}"
    if not wrong & {"chains", "default_chain"}:
        for suspects, message in contradictions(*_chains_of(known)):
            key = next((key for key in suspects if set_by((key,)) is not None), suspects[0])
            yield f"{_place(file, (key,))}: {message}"


def _chains_of(values: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The default chain and the names of the chains, of values that are in order by themselves."""
    default, chains = set_by(("default_chain",)), set_by(("chains",))
    named = values.get("chains") if chains is None else json.loads(os.environ[chains])
    names = [chain.name for chain in default_chains()] if named is None else [chain["name"] for chain in named]
    stated = values.get("default_chain", Settings.model_fields["default_chain"].default)
    return stated if default is None else os.environ[default], names


def setting_names(model: type[BaseModel] = Settings, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every key, as ("listen", "port"); the keys of a list of tables stand below the list's name."""
    for name, field in model.model_fields.items():
        below = _section_of(field.annotation)
        if below is None:
            yield (*prefix, name)
        else:
            yield from setting_names(below, (*prefix, name))


def _section_of(annotation: Any) -> type[Section] | None:
    candidate = annotation.__args__[0] if getattr(annotation, "__origin__", None) is list else annotation
    return candidate if isinstance(candidate, type) and issubclass(candidate, Section) else None


def _unknown_keys(values: Mapping[str, Any], model: type[BaseModel], prefix: tuple[str, ...] = ()) -> Iterator[str]:
    for key, value in values.items():
        if key not in model.model_fields:
            yield f"unknown key `{'.'.join((*prefix, key))}`{_nearest_key(key, model)}"
            continue
        below = _section_of(model.model_fields[key].annotation)
        for table in value if isinstance(value, list) else [value]:
            if below is not None and isinstance(table, dict):
                yield from _unknown_keys(table, below, (*prefix, key))


def _known(values: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """The values without the keys that nothing knows, which are told of by themselves."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if key not in model.model_fields:
            continue
        below = _section_of(model.model_fields[key].annotation)
        if below is not None and isinstance(value, dict):
            found[key] = _known(value, below)
        elif below is not None and isinstance(value, list):
            found[key] = [_known(item, below) if isinstance(item, dict) else item for item in value]
        else:
            found[key] = value
    return found


def _unknown_variables(environ: Mapping[str, str]) -> Iterator[str]:
    known = {_variable(path) for path in setting_names()}
    for name in sorted(environ):
        if name.upper().startswith(ENV_PREFIX) and name.upper() not in known:
            yield f"{name}: unknown variable of the environment{_nearest_variable(name.upper())}"


def _variable(path: tuple[str | int, ...]) -> str:
    """The variable that sets a key. The chains are one variable, all together."""
    return ENV_PREFIX + ("CHAINS" if path[0] == "chains" else ENV_DELIMITER.join(map(str, path)).upper())


def _nearest_key(key: str, model: type[BaseModel]) -> str:
    """The key of the same table that looks like this one, or the one of any table that has this very name."""
    matches = difflib.get_close_matches(key, model.model_fields, n=1, cutoff=0.5)
    return _suggestion(matches or [".".join(path) for path in setting_names() if path[-1] == key], model.model_fields)


def _nearest_variable(name: str) -> str:
    """The variable whose last word this name ends with, or that looks like it."""
    words = name.removeprefix(ENV_PREFIX)
    paths = list(setting_names())
    ending = [path for path in paths if f"_{words}".endswith(f"_{path[-1].upper()}")]
    candidates = {_variable(path).removeprefix(ENV_PREFIX) for path in ending or paths}
    matches = difflib.get_close_matches(words, sorted(candidates), n=1, cutoff=0.0 if ending else 0.5)
    return _suggestion([ENV_PREFIX + match for match in matches], sorted({_variable(path) for path in paths}))


def _suggestion(matches: list[str], known: Iterable[str]) -> str:
    return f"; did you mean `{matches[0]}`?" if matches else f"; known are {', '.join(known)}"


def explain(error: ValidationError) -> str:
    """Which keys are wrong and why, on one line, without their values."""
    return "; ".join(f"{'.'.join(map(str, keys))}: {message}" for keys, message in _explained(error))


def _explained(error: ValidationError) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The keys of each error of a value and what is wrong there."""
    for item in error.errors(include_url=False, include_input=False):
        if item["type"] != DISAGREEMENT:
            yield item["loc"], plain(item["msg"], "a table")


def _place(file: Path, keys: tuple[str | int, ...]) -> str:
    """Where a value comes from: the variable that sets it, else the file, and the keys."""
    variable = set_by(keys)
    if variable is None:
        return f"{file}: {'.'.join(map(str, keys))}"
    below = ".".join(map(str, keys[1:])) if keys[0] == "chains" else ""
    return f"{variable}: {below}" if below else variable


def set_by(keys: tuple[str | int, ...]) -> str | None:
    """The variable of the environment that sets a value, as it is spelt there; None if none does."""
    return next((name for name in os.environ if name.upper() == _variable(keys)), None)


def _no_json(error: SettingsError) -> str:
    """The only variable that is JSON is that of the chains."""
    variable = set_by(("chains",))
    if variable is None:
        return str(error)
    example = '[{"name": "quicknet", "relays": ["https://api.drand.sh"]}]'
    return f"{variable}: not JSON; a list of chains is due, as {example}"


def _with_absolute_paths(settings: Settings, base: Path) -> Settings:
    chains = [
        chain if chain.file is None else chain.model_copy(update={"file": base / chain.file})
        for chain in settings.chains
    ]
    witnesses = settings.witnesses
    if witnesses.policy is not None:
        witnesses = witnesses.model_copy(update={"policy": base / witnesses.policy})
    return settings.model_copy(update={"data_dir": base / settings.data_dir, "chains": chains, "witnesses": witnesses})
