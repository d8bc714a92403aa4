"""Settings: `beacon.toml`, overridden by `BEACON_*` variables; and the key files of the data directory.

A typo never passes silently: an unknown key of the file and an unknown `BEACON_*` variable both stop the start, with
the nearest name that exists. Secrets are no settings: they are files of their own, which only their owner may read.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from beacon.relay_urls import check_relay_url

CONFIG_NAME: Final = "beacon.toml"
ENV_PREFIX: Final = "BEACON_"
ENV_DELIMITER: Final = "__"
KEY_BYTES: Final = 32
DAY_MS: Final = 86_400_000

_KEY_TEXT = re.compile(rb"[0-9a-f]{64}\n?")

Origin = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~/-]{0,127}$")]
ChainName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9._-]{0,63}$")]
RelayUrl = Annotated[str, AfterValidator(check_relay_url)]


class ConfigurationError(Exception):
    """The service cannot start with these settings or key files. The message says which one and what to do."""


class Section(BaseModel):
    """A table of the file: every key is known, nothing changes after the start."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ChainSettings(Section):
    """One drand chain that the service follows."""

    name: ChainName = Field(
        description="What hosts call the chain. Without `file`, one of the pinned chains that ship with fair-beacon.",
        examples=["quicknet"],
    )
    file: Path | None = Field(
        default=None,
        description="A file with the chain's info, for any other chain. Relative to this file.",
        examples=["chain.json"],
    )
    relays: list[RelayUrl] = Field(
        min_length=1,
        max_length=16,
        description="Base URLs of drand relays, asked in an order learnt from how they answer. A relay is never "
        "trusted: every round is verified.",
        examples=[["https://api.drand.sh"]],
    )
    sandbox_only: bool = Field(
        default=False,
        description="Whether only sandbox hosts may use the chain. Right for a devnet, and for nothing else.",
    )


DRAND_RELAYS: Final = (
    "https://api.drand.sh",
    "https://api2.drand.sh",
    "https://api3.drand.sh",
    "https://drand.cloudflare.com",
    "https://api.drand.secureweb3.com:6875",
)


def _default_chains() -> list[ChainSettings]:
    return [ChainSettings(name="quicknet", relays=list(DRAND_RELAYS))]


class ListenSettings(Section):
    """Where the HTTP API listens. TLS is the reverse proxy's business."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to bind.")
    port: int = Field(default=8080, ge=0, le=65_535, description="TCP port; 0 takes a free one and prints it.")
    shutdown_ms: int = Field(
        default=10_000,
        ge=0,
        le=600_000,
        description="Milliseconds that requests under way may still take when the service is told to stop.",
    )


class LimitSettings(Section):
    """What one request may cost."""

    body_bytes: int = Field(
        default=262_144, ge=1_024, le=16_777_216, description="Bytes of a request's body at the most."
    )
    body_ms: int = Field(
        default=10_000, ge=100, le=600_000, description="Milliseconds within which a request's body has to arrive."
    )


class SessionSettings(Section):
    """Defaults for what a seal request leaves out."""

    round_lead_ms: int = Field(
        default=30_000,
        ge=0,
        le=30 * DAY_MS,
        description="Milliseconds from the seal to its round, where the request names none. "
        "Never less than the protocol asks for (2 periods of the chain).",
    )
    reveal_after_ms: int = Field(
        default=DAY_MS,
        ge=600_000,
        le=369 * DAY_MS,
        description="Milliseconds from the round to the deadline of the reveal, where the request names none. "
        "Never less than the protocol asks for (10 minutes and 10 periods).",
    )


class LoggingSettings(Section):
    """Structured logs on standard error. They never hold bodies, tokens or seeds."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least severe level that is logged: debug, info, warning or error."
    )
    format: Literal["json", "console"] = Field(
        default="json", description="json: one object a line, for machines. console: for people."
    )


class Settings(BaseSettings):
    """All settings of one service. Paths are absolute once loaded by `load_settings`."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter=ENV_DELIMITER, extra="forbid", frozen=True
    )

    origin: Origin = Field(
        description="Name of the log and of its key, for ever: a schema-less URL under a domain of yours. No default.",
        examples=["beacon.example/fair"],
    )
    data_dir: Path = Field(
        default=Path(),
        description="Directory of log.db, private.db, log.key and master.key. Relative to this file.",
    )
    default_chain: ChainName = Field(
        default="quicknet", description="Name of the chain that a seal uses when its request names none."
    )
    listen: ListenSettings = Field(default_factory=ListenSettings)
    limits: LimitSettings = Field(default_factory=LimitSettings)
    sessions: SessionSettings = Field(default_factory=SessionSettings)
    logging: LoggingSettings = Field(default_factory=LoggingSettings)
    chains: list[ChainSettings] = Field(default_factory=_default_chains, min_length=1, max_length=16)

    @model_validator(mode="after")
    def _chains_agree(self) -> Self:
        names = [chain.name for chain in self.chains]
        if len(set(names)) != len(names):
            raise ValueError("chains: the same name twice")
        if self.default_chain not in names:
            raise ValueError(f"default_chain: {self.default_chain!r} is not among the chains ({', '.join(names)})")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over the file, which comes in as init values. Nothing else is read."""
        _ = settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings

    @property
    def log_db(self) -> Path:
        """The public database."""
        return self.data_dir / "log.db"

    @property
    def private_db(self) -> Path:
        """The private database: hosts, hashed tokens, encrypted seeds."""
        return self.data_dir / "private.db"

    @property
    def spool(self) -> Path:
        """The folder in which other processes leave verified rounds for the service."""
        return self.data_dir / "rounds-in"

    @property
    def log_key(self) -> Path:
        """The Ed25519 seed that signs checkpoints."""
        return self.data_dir / "log.key"

    @property
    def master_key(self) -> Path:
        """The key under which seeds are encrypted at rest."""
        return self.data_dir / "master.key"


def load_settings(path: Path) -> Settings:
    """Settings of a `beacon.toml`, or of the directory that holds it, under the environment's `BEACON_*`.

    Raises ConfigurationError, which names the file or variable and the key.
    """
    file = path / CONFIG_NAME if path.is_dir() else path
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}. Make a data directory with `beacon init`.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: not TOML: {error}") from error
    problems = [*_unknown_keys(values, Settings), *_unknown_variables(os.environ)]
    if problems:
        raise ConfigurationError("\n".join(f"{file}: {problem}" for problem in problems))
    try:
        settings = Settings(**values)
    except (ValidationError, SettingsError) as error:
        raise ConfigurationError(f"{file}: {explain(error)}") from error
    return _with_absolute_paths(settings, file.resolve().parent)


def read_key(path: Path) -> bytes:
    """The 32 bytes of a key file: 64 lower-case hex digits that nobody but the owner may read.

    Raises ConfigurationError for a file that is missing, unreadable, open to others or malformed.
    """
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            text = file.read(2 * KEY_BYTES + 2)
    except OSError as error:
        raise ConfigurationError(
            f"{path}: {error.strerror}. Without this key file the service does not start; restore it from its backup."
        ) from error
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = stat.S_IMODE(status.st_mode)
        raise ConfigurationError(f"{path}: mode {mode:04o} lets others at this key. Do `chmod 600 {path}`.")
    if not _KEY_TEXT.fullmatch(text):
        raise ConfigurationError(f"{path}: a key file holds {2 * KEY_BYTES} lower-case hex digits and nothing else.")
    return bytes.fromhex(text.decode("ascii"))


def write_key(path: Path, key: bytes) -> None:
    """Write 32 bytes as a new key file with mode 0600. An existing file is never overwritten (FileExistsError)."""
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes")
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key.hex().encode("ascii") + b"\n")
        file.flush()
        os.fsync(file.fileno())


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


def _unknown_keys(values: Mapping[str, Any], model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        if key not in model.model_fields:
            yield f"unknown key `{prefix}{key}`{_nearest(key, list(model.model_fields))}"
            continue
        below = _section_of(model.model_fields[key].annotation)
        for table in value if isinstance(value, list) else [value]:
            if below is not None and isinstance(table, dict):
                yield from _unknown_keys(table, below, f"{prefix}{key}.")


def _unknown_variables(environ: Mapping[str, str]) -> Iterator[str]:
    known = {ENV_PREFIX + ENV_DELIMITER.join(path).upper() for path in setting_names() if path[0] != "chains"}
    known.add(f"{ENV_PREFIX}CHAINS")
    for name in sorted(environ):
        if name.upper().startswith(ENV_PREFIX) and name.upper() not in known:
            yield f"unknown variable {name} in the environment{_nearest(name.upper(), sorted(known))}"


def _nearest(name: str, known: list[str]) -> str:
    matches = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean `{matches[0]}`?" if matches else f"; known are {', '.join(known)}"


def explain(error: ValidationError | SettingsError) -> str:
    """Which keys are wrong and why, on one line, without their values."""
    if isinstance(error, SettingsError):
        return str(error)
    return "; ".join(
        f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}".removeprefix(": ")
        for item in error.errors(include_url=False, include_input=False)
    )


def _with_absolute_paths(settings: Settings, base: Path) -> Settings:
    chains = [
        chain if chain.file is None else chain.model_copy(update={"file": base / chain.file})
        for chain in settings.chains
    ]
    return settings.model_copy(update={"data_dir": base / settings.data_dir, "chains": chains})
