"""Settings: `beacon.toml`, overridden by `BEACON_*` variables; and the key files of the data directory.

A typo never passes silently: an unknown key of the file and an unknown `BEACON_*` variable both stop the start, with
the nearest name that exists. Secrets are no settings: they are files of their own, which only their owner may read.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from beacon.relay_urls import check_relay_url
from beacon.wording import plain

CONFIG_NAME: Final = "beacon.toml"
ENV_PREFIX: Final = "BEACON_"
ENV_DELIMITER: Final = "__"
KEY_BYTES: Final = 32
DAY_MS: Final = 86_400_000
_DISAGREEMENT: Final = "disagreement"

_KEY_TEXT = re.compile(rb"[0-9a-f]{64}\n?")
_ORIGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~/-]{0,127}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")


class ConfigurationError(Exception):
    """The service cannot start with these settings or key files. The message says which one and what to do."""


def check_origin(text: str) -> str:
    """Give the text back if it can be a log's origin. Raises ValueError, which says what is wrong."""
    if scheme := _SCHEME.match(text):
        raise ValueError(f"leave out {scheme[0]}, as in beacon.example/fair")
    if not _ORIGIN.fullmatch(text):
        raise ValueError(
            "a letter or digit, then up to 127 letters, digits and . _ ~ / - are due, as in beacon.example/fair"
        )
    return text


def _check_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("a letter, then up to 63 letters, digits, dots, underscores and hyphens are due")
    return text


def _check_networks(text: str) -> str:
    for part in text.split():
        try:
            ipaddress.ip_network(part)
        except ValueError:
            raise ValueError(f"{part!r} is no network, as 10.0.0.0/8 and fd00::/8 are") from None
    return text


Origin = Annotated[str, AfterValidator(check_origin)]
ChainName = Annotated[str, AfterValidator(_check_name)]
RelayUrl = Annotated[str, AfterValidator(check_relay_url)]
Networks = Annotated[str, AfterValidator(_check_networks)]


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
    trusted_proxies: Networks = Field(
        default="",
        description="Networks, separated by spaces, of the reverse proxies in front of the service: a request "
        "from there counts as the last address in `X-Forwarded-For` that is not theirs. Without it all "
        "requests that come through a proxy count as one address.",
        examples=["127.0.0.1 ::1"],
    )
    shutdown_ms: int = Field(
        default=10_000,
        ge=0,
        le=600_000,
        description="Milliseconds that requests under way may still take when the service is told to stop.",
    )


class MetricsSettings(Section):
    """Where `/metrics` for Prometheus listens: apart from the API, and without authentication."""

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to bind.")
    port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="TCP port, other than the API's; 0 takes a free one and logs it. Without it there are no metrics.",
        examples=[9464],
    )


class LimitSettings(Section):
    """What one request may cost."""

    body_bytes: int = Field(
        default=262_144, ge=1_024, le=16_777_216, description="Bytes of a request's body at the most."
    )
    body_ms: int = Field(
        default=10_000, ge=100, le=600_000, description="Milliseconds within which a request's body has to arrive."
    )


class RateSettings(Section):
    """How many requests are taken. Each limit is a bucket that holds a minute's requests and fills up evenly."""

    token_per_minute: int = Field(
        default=240_000,
        ge=0,
        le=60_000_000,
        description="Requests a minute with one host token; each item of a batch counts. 0: no limit.",
    )
    address_per_minute: int = Field(
        default=12_000,
        ge=0,
        le=60_000_000,
        description="Requests a minute without a valid host token from one network address, of IPv6 from one /64. "
        "0: no limit.",
    )


class WaitingSettings(Section):
    """How many may wait for what happens to sessions, and for rounds."""

    listeners: int = Field(
        default=2_000,
        ge=1,
        le=8_000,
        description="Event streams, and reads that wait for a session or a round, that may be open at once.",
    )
    listeners_per_address: int = Field(
        default=64,
        ge=1,
        le=8_000,
        description="How many of them may come from one network address; behind a reverse proxy see "
        "`listen.trusted_proxies`.",
    )


class WebhookSettings(Section):
    """What is sent to hosts' webhooks, and where to."""

    per_host: int = Field(default=8, ge=0, le=100, description="Webhooks that a host may have; 0: none.")
    retry_ms: int = Field(
        default=3 * DAY_MS,
        ge=0,
        le=30 * DAY_MS,
        description="Milliseconds for which a delivery is tried again before it is given up.",
    )
    timeout_ms: int = Field(
        default=15_000, ge=100, le=60_000, description="Milliseconds that a receiver has for its answer."
    )
    allow_http: bool = Field(default=False, description="Whether webhooks may go without TLS. For tests.")
    allow_networks: Networks = Field(
        default="",
        description="Networks, separated by spaces, to which webhooks may go besides the public internet, "
        "such as 10.20.0.0/16. A host can have requests sent there.",
        examples=["10.20.0.0/16"],
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
    timelock: bool = Field(
        default=True,
        description="Whether seeds in the beacon's custody are also sealed to a drand round after reveal_by, where the "
        "request does not say and the chain can: then anybody can open a seed that the service does not reveal.",
    )


class WitnessSettings(Section):
    """Who cosigns the log's checkpoints, so that nobody has to trust this service about their order and time."""

    policy: Path | None = Field(
        default=None,
        description="A file that names the witnesses with their keys and URLs, and their quorum (C2SP tlog-policy): "
        "the same that players give to `verifier check --policy`. Relative to this file. Without it nobody is asked.",
        examples=["witnesses.policy"],
    )
    timeout_ms: int = Field(default=2_000, ge=100, le=60_000, description="Milliseconds that a witness has to answer.")
    every_ms: int = Field(
        default=500,
        ge=50,
        le=60_000,
        description="Milliseconds at least from one checkpoint that witnesses are asked to cosign to the next.",
    )
    room_ms: int = Field(
        default=3_000,
        ge=0,
        le=600_000,
        description="Milliseconds that are left for the witnesses, where there are any: between the default close of "
        "contributions and its round, and between a live call and its round (the default of `lead`). `every_ms` and "
        "`timeout_ms` together should fit in.",
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
        description="Directory of log.db, private.db, log.key, log.vkey and master.key. Relative to this file.",
    )
    default_chain: ChainName = Field(
        default="quicknet", description="Name of the chain that a seal uses when its request names none."
    )
    listen: ListenSettings = Field(default_factory=ListenSettings)
    metrics: MetricsSettings = Field(default_factory=MetricsSettings)
    limits: LimitSettings = Field(default_factory=LimitSettings)
    rates: RateSettings = Field(default_factory=RateSettings)
    waiting: WaitingSettings = Field(default_factory=WaitingSettings)
    sessions: SessionSettings = Field(default_factory=SessionSettings)
    webhooks: WebhookSettings = Field(default_factory=WebhookSettings)
    witnesses: WitnessSettings = Field(default_factory=WitnessSettings)
    logging: LoggingSettings = Field(default_factory=LoggingSettings)
    chains: list[ChainSettings] = Field(default_factory=_default_chains, min_length=1, max_length=16)

    @model_validator(mode="after")
    def _chains_agree(self) -> Self:
        for _, message in _contradictions(self.default_chain, [chain.name for chain in self.chains]):
            raise PydanticCustomError(_DISAGREEMENT, "{message}", {"message": message})
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
    def log_mark(self) -> Path:
        """The newest checkpoint that may have been acknowledged, beside the log and not in it."""
        return self.data_dir / "log.mark"

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
    def log_vkey(self) -> Path:
        """The public half of the log's key, for whoever checks a transcript. Nothing reads it here."""
        return self.data_dir / "log.vkey"

    @property
    def master_key(self) -> Path:
        """The key under which seeds are encrypted at rest."""
        return self.data_dir / "master.key"


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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
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
        for keys, message in _contradictions(*_chains_of(known)):
            yield f"{_place(file, keys)}: {message}"


def _chains_of(values: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The default chain and the names of the chains, of values that are in order by themselves."""
    default, chains = set_by(("default_chain",)), set_by(("chains",))
    named = values.get("chains") if chains is None else json.loads(os.environ[chains])
    names = [chain.name for chain in _default_chains()] if named is None else [chain["name"] for chain in named]
    stated = values.get("default_chain", Settings.model_fields["default_chain"].default)
    return stated if default is None else os.environ[default], names


def _contradictions(default: str, names: Sequence[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """What contradicts each other: the key to change, one that the environment sets before others, and why."""
    if len(set(names)) != len(names):
        yield ("chains",), "the same name twice"
    if default not in names:
        message = f"the default chain {default!r} is not among the chains ({', '.join(names)})"
        suspects = ("default_chain", "chains")
        yield (next((key for key in suspects if set_by((key,)) is not None), suspects[0]),), message


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
    """Write 32 bytes as a new key file with mode 0600: whole and durable, or not there.

    An existing file is never overwritten (FileExistsError).
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes")
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key.hex().encode("ascii") + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


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
        if item["type"] != _DISAGREEMENT:
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
