"""The data directory of a service: how it is made, and the settings file in it, written out in full."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from beacon.clock import Clock
from beacon.keys.log import log_signer
from beacon.log.log import Log
from beacon.settings import (
    CONFIG_NAME,
    DRAND_RELAYS,
    KEY_BYTES,
    ChainSettings,
    ConfigurationError,
    Section,
    Settings,
    WitnessSettings,
    explain,
    load_settings,
    write_key,
)
from beacon.store.errors import StoreError
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.writer import Writer
from beacon.wording import of_error, of_system
from verifier.drand import ChainInfo
from verifier.errors import VerifierError
from verifier.fetch import TEST_NETWORKS, load_chain, pinned_chains

HEADER: Final = """\
fair-beacon: every setting, its unit and its default.
A variable of the environment wins over this file: BEACON_ORIGIN, BEACON_LISTEN__PORT; BEACON_CHAINS takes a JSON list.
An unknown key or BEACON_* variable stops the start. Times are milliseconds.\
"""


POLICY_NAME: Final = "witnesses.policy"
PRIVATE_DIRECTORY: Final = 0o700
PRIVATE_FILE: Final = 0o600
PUBLIC_FILE: Final = 0o644
DRAND_TESTNET_RELAYS: Final = ("https://pl-us.testnet.drand.sh", "https://pl-eu.testnet.drand.sh")
RELAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "quicknet": DRAND_RELAYS,
    "default": DRAND_RELAYS,
    "evmnet": DRAND_RELAYS,
    "quicknet-t": DRAND_TESTNET_RELAYS,
    "testnet-default": DRAND_TESTNET_RELAYS,
}


def initialise(
    directory: Path, origin: str, chains: Sequence[ChainSettings], clock: Clock, policy: Path | None = None
) -> str:
    """Make a data directory: settings, both keys, both databases, the log with its first leaf. Returns the log's vkey.

    The chains' files and the witnesses' policy are copied in. Nobody but the owner may look into the directory (0700).
    Everything is made beside `directory` and appears at once, or not at all; in a directory that is there and empty, as
    a mounted volume is, it is made inside, and the settings appear last.
    Raises ConfigurationError when the directory exists and is not empty, when two chains have one name, or when the
    settings or the policy would not load; StoreError. Where everything was made meanwhile is in no message.
    """
    empty = require_empty(directory)
    names = [chain.name for chain in chains]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigurationError(f"two chains have the name {twice[0]}.")
    try:
        if empty:
            directory.chmod(PRIVATE_DIRECTORY)
        place = directory if empty else directory.absolute().parent
        work = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=place)).resolve()
    except OSError as error:
        raise ConfigurationError(f"{directory}: {error.strerror}.") from error
    try:
        _write(work / CONFIG_NAME, render_settings(origin, _copied(chains, work), policy), PRIVATE_FILE)
        if policy is not None:
            _copy(policy, work / POLICY_NAME)
        vkey = _fill(_load_made(work, origin), clock)
        if empty:
            _move_all(work, directory)
        else:
            work.rename(directory)
    except (ConfigurationError, StoreError) as error:
        raise type(error)(of_error(error).replace(str(work), str(directory))) from error
    except OSError as error:
        raise ConfigurationError(of_system(error).replace(str(work), str(directory))) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return vkey


def require_empty(directory: Path) -> bool:
    """Whether the directory is there, with nothing in it. Raises ConfigurationError when there is something."""
    if not directory.exists():
        return False
    if (directory / CONFIG_NAME).exists():
        raise ConfigurationError(
            f"{directory} exists already, with a {CONFIG_NAME}: a data directory is made once and never again. "
            f"`beacon doctor --dir {directory}` says how it is."
        )
    try:
        if directory.is_dir() and all(path.name == "lost+found" for path in directory.iterdir()):
            return True
    except OSError as error:
        raise ConfigurationError(f"{directory}: {error.strerror}.") from error
    raise ConfigurationError(f"{directory} exists already, and is no empty directory. Name another one.")


def _move_all(work: Path, directory: Path) -> None:
    """The settings last: without them it is no data directory."""
    for path in sorted(work.iterdir(), key=lambda path: path.name == CONFIG_NAME):
        path.rename(directory / path.name)


def pinned_chain(name: str, relays: Sequence[str] = ()) -> ChainSettings:
    """The settings of a chain that ships with fair-beacon, with drand's own relays unless others are given.

    Raises ConfigurationError for a name that is not pinned, or that needs relays.
    """
    if name not in pinned_chains():
        raise ConfigurationError(f"there is no chain {name!r}; there are {', '.join(pinned_chains())}")
    known = relays or RELAYS.get(name, ())
    return _chain(name, None, known, sandbox_only=name in TEST_NETWORKS)


def own_chain(file: Path, relays: Sequence[str]) -> ChainSettings:
    """The settings of a chain that is in no list, such as a devnet: for sandbox hosts only.

    Raises ConfigurationError when the file holds no chain info, or without relays.
    """
    try:
        info = load_chain(str(file))
    except VerifierError as error:
        raise ConfigurationError(f"{file}: {error.message}") from error
    return _chain(info.beacon_id, file.absolute(), relays, sandbox_only=True)


def _chain(name: str, file: Path | None, relays: Sequence[str], *, sandbox_only: bool) -> ChainSettings:
    if not relays:
        raise ConfigurationError(f"the chain {name} needs at least one relay")
    try:
        return ChainSettings(name=name, file=file, relays=list(relays), sandbox_only=sandbox_only)
    except ValidationError as error:
        raise ConfigurationError(f"chain {name}: {explain(error)}") from error


def followed_chains(settings: Settings) -> dict[str, ChainInfo]:
    """The infos of the chains that the settings name, by name. Raises ConfigurationError."""
    found: dict[str, ChainInfo] = {}
    for chain in settings.chains:
        if chain.file is None and chain.name not in pinned_chains():
            raise ConfigurationError(f"chain {chain.name}: not one that ships with fair-beacon; give its `file`.")
        try:
            info = load_chain(chain.name if chain.file is None else str(chain.file))
        except VerifierError as error:
            raise ConfigurationError(f"chain {chain.name}: {error.message}") from error
        if info.hash in {other.hash for other in found.values()}:
            raise ConfigurationError(f"chain {chain.name}: the same chain stands there under another name.")
        found[chain.name] = info
    return found


def require_databases(settings: Settings) -> None:
    """Refuse a data directory without its databases: a new log under an old key would be a second history.

    Raises ConfigurationError.
    """
    for path in (settings.log_db, settings.private_db):
        try:
            size = path.stat().st_size
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror}. Restore it; it is never made anew.") from error
        if size == 0:
            raise ConfigurationError(f"{path}: the file is empty. Restore it; it is never made anew.")


def _copied(chains: Sequence[ChainSettings], directory: Path) -> list[ChainSettings]:
    copies = []
    for chain in chains:
        if chain.file is None:
            copies.append(chain)
        else:
            name = Path(f"chain-{chain.name}.json")
            _copy(chain.file, directory / name)
            copies.append(chain.model_copy(update={"file": name}))
    return copies


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    target.chmod(PUBLIC_FILE)


def _write(path: Path, text: str, mode: int) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def _load_made(directory: Path, origin: str) -> Settings:
    settings = load_settings(directory)
    if (settings.origin, settings.data_dir) != (origin, directory):
        raise ConfigurationError("BEACON_ORIGIN or BEACON_DATA_DIR in the environment contradicts this command.")
    return settings


def _fill(settings: Settings, clock: Clock) -> str:
    write_key(settings.master_key, os.urandom(KEY_BYTES))
    write_key(settings.log_key, os.urandom(KEY_BYTES))
    Writer(settings.private_db, PRIVATE_SCHEMA).close()
    signer = log_signer(settings)
    Log.open(settings.log_db, signer, clock, mark=settings.log_mark).close()
    _write(settings.log_vkey, f"{signer.vkey}\n", PUBLIC_FILE)
    return str(signer.vkey)


def render_settings(origin: str, chains: Sequence[ChainSettings] = (), policy: Path | None = None) -> str:
    """The text of a `beacon.toml` with every key and what it means; `chains` in place of the default ones if given.

    policy: there is a policy of witnesses, beside the settings as POLICY_NAME.
    """
    settings = Settings.model_construct(origin=origin)
    if policy is not None:
        settings = settings.model_copy(update={"witnesses": WitnessSettings(policy=Path(POLICY_NAME))})
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
