"""The settings of one service: every key, its default, its limits and what it means."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from beacon.relay_urls import check_relay_url

ENV_PREFIX: Final = "BEACON_"
ENV_DELIMITER: Final = "__"
DAY_MS: Final = 86_400_000
DISAGREEMENT: Final = "disagreement"

_ORIGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~/-]{0,127}")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")


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


def _check_path(path: Path | None) -> Path | None:
    if path is not None and "\0" in str(path):
        raise ValueError("no file can have this name")
    return path


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

    _file_can_be = field_validator("file")(_check_path)


DRAND_RELAYS: Final = (
    "https://api.drand.sh",
    "https://api2.drand.sh",
    "https://api3.drand.sh",
    "https://drand.cloudflare.com",
    "https://api.drand.secureweb3.com:6875",
)


def default_chains() -> list[ChainSettings]:
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

    _policy_can_be = field_validator("policy")(_check_path)


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
    chains: list[ChainSettings] = Field(default_factory=default_chains, min_length=1, max_length=16)

    _data_dir_can_be = field_validator("data_dir")(_check_path)

    @model_validator(mode="after")
    def _chains_agree(self) -> Self:
        for _, message in contradictions(self.default_chain, [chain.name for chain in self.chains]):
            raise PydanticCustomError(DISAGREEMENT, "{message}", {"message": message})
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


def contradictions(default: str, names: Sequence[str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """What contradicts each other: the keys of which one is to be changed, the likelier ones first, and why."""
    if len(set(names)) != len(names):
        yield ("chains",), "the same name twice"
    if default not in names:
        yield ("default_chain", "chains"), f"the default chain {default!r} is not among the chains ({', '.join(names)})"
