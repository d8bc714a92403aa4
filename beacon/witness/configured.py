"""The witnesses that the settings name, by a policy file (C2SP tlog-policy), checked before the service starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from beacon.relay_urls import check_relay_url
from beacon.settings import ConfigurationError
from verifier.errors import VerifierError
from verifier.fetch import read_file
from verifier.note import VerifierKey
from verifier.policy import MAX_POLICY_BYTES, Policy

MAX_WITNESSES: Final = 32


@dataclass(frozen=True, slots=True)
class Configured:
    """A witness that is asked. name: as the policy has it; url: what `/add-checkpoint` is appended to."""

    name: str
    key: VerifierKey
    url: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The service's own policy, and its witnesses in its order."""

    policy: Policy
    witnesses: tuple[Configured, ...]


def load_policy(path: Path, log: VerifierKey | None) -> Asked:
    """The policy of a file and the witnesses to ask. Raises ConfigurationError.

    Every witness needs a URL. If the policy names logs, `log` must be one of them; None: a log that is yet to be made.
    """
    try:
        text = read_file(path, MAX_POLICY_BYTES)
    except VerifierError as error:
        raise ConfigurationError(error.message) from error
    try:
        policy = Policy.parse(text)
    except VerifierError as error:
        raise ConfigurationError(f"{path}: {error.message}") from error
    if not 1 <= len(policy.witnesses) <= MAX_WITNESSES:
        raise ConfigurationError(f"{path}: 1 to {MAX_WITNESSES} witnesses are due, here are {len(policy.witnesses)}.")
    if policy.logs and log not in policy.logs:
        raise ConfigurationError(f"{path}: names other logs than {log or 'the one to be made'}.")
    return Asked(policy, tuple(_configured(path, policy, name, key) for name, key in policy.witnesses.items()))


def _configured(path: Path, policy: Policy, name: str, key: VerifierKey) -> Configured:
    url = policy.witness_urls.get(name)
    if not name.isprintable():
        raise ConfigurationError(f"{path}: a witness's name is not printable.")
    if url is None:
        raise ConfigurationError(f"{path}: {name} has no URL, so it cannot be asked.")
    try:
        check_relay_url(url)
    except ValueError as error:
        raise ConfigurationError(f"{path}: {name}: {str(error).replace('a relay', 'a witness')}.") from error
    return Configured(name, key, url.rstrip("/"))
