"""Settings that contradict each other or the files that they name, all of them; and such as no operator means."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from beacon.doctor.finding import Finding, fine, found
from beacon.relay_urls import public_name
from beacon.settings import CONFIG_NAME, ENV_PREFIX, ConfigurationError, Settings, config_file, load_settings, read_key
from beacon.witness.configured import load_policy
from verifier.errors import VerifierError
from verifier.fetch import TEST_NETWORKS, load_chain, pinned_chains
from verifier.note import SigningKey, VerifierKey

_VARIABLE: Final = re.compile(rf"(?i:{ENV_PREFIX})\w*")


def loaded(path: Path) -> tuple[Settings | None, list[Finding]]:
    """The settings of a file under the environment, and what is wrong with them; None where they cannot be used."""
    file = config_file(path)
    try:
        settings = load_settings(path)
    except ConfigurationError as error:
        return None, [_invalid(file, line) for line in str(error).splitlines()]
    return settings, [fine("settings", file, "every key and variable is known and can be used"), *judge(settings)]


def judge(settings: Settings) -> Iterator[Finding]:
    """What contradicts, or is no good for a service in production."""
    yield from _chains(settings)
    yield from _listeners(settings)
    yield from _witnesses(settings)
    if settings.webhooks.allow_http:
        yield found(
            "webhooks-http", "webhooks.allow_http", "anybody on the way can read them", _edit("webhooks.allow_http")
        )


def _invalid(file: Path, line: str) -> Finding:
    about, _, says = line.removeprefix(f"{file}: ").partition(": ")
    if variable := _VARIABLE.match(line):
        return found("settings-invalid", about, says, f"unset {variable[0]}, or give it a value that it can have")
    fix = f"edit {file}" if file.exists() else f"name the right directory, or make one: beacon init {file.parent}"
    if not says:
        return found("settings-invalid", file, about, fix)
    return found("settings-invalid", about, says, fix)


def _chains(settings: Settings) -> Iterator[Finding]:
    seen: dict[bytes, str] = {}
    for chain in settings.chains:
        key = f"chains: {chain.name}"
        try:
            info = load_chain(chain.name if chain.file is None else str(chain.file))
        except VerifierError as error:
            why = error.message if chain.file is not None else f"not one of {', '.join(pinned_chains())}"
            yield found("chain-invalid", key, why, f"{_edit('chains.file')}: a file with the chain's info")
            continue
        if (twin := seen.setdefault(info.hash, chain.name)) != chain.name:
            yield found("chain-invalid", key, f"the same chain as {twin}", f"{_edit('chains')}: take one out")
        pinned = {one.hash: name for name, one in pinned_chains().items()}
        for_tests = pinned.get(info.hash) is None or pinned[info.hash] in TEST_NETWORKS
        if for_tests and not chain.sandbox_only:
            says = "a test network, or of nobody's pinning: whoever runs it knows its rounds"
            yield found("chain-for-tests", key, says, f"{_edit('chains.sandbox_only')}: true")
        if chain.sandbox_only and chain.name == settings.default_chain:
            yield found(
                "default-chain-sandbox", key, "hosts' seals that name no chain are refused", _edit("default_chain")
            )
        if len(chain.relays) == 1:
            yield found(
                "relay-single", key, "when it is away, nothing can be sealed", f"{_edit('chains.relays')}: add one"
            )
        for url in chain.relays:
            if url.startswith("http://") and not _is_local(urlsplit(url).hostname or ""):
                yield found("relay-plain", public_name(url), f"of {chain.name}", f"{_edit('chains.relays')}: https://")


def _listeners(settings: Settings) -> Iterator[Finding]:
    listen, metrics = settings.listen, settings.metrics
    if metrics.port is not None and metrics.port == listen.port != 0 and _overlap(metrics.host, listen.host):
        yield found("ports-equal", "metrics.port", f"{metrics.port} is listen.port too", _edit("metrics.port"))
    if not _is_local(listen.host) and not listen.trusted_proxies:
        fix = f"{_edit('listen.host')}: 127.0.0.1, or listen.trusted_proxies"
        yield found("listen-open", "listen.host", f"{listen.host}, without listen.trusted_proxies", fix)
    if metrics.port is not None and not _is_local(metrics.host):
        yield found("metrics-open", "metrics.host", metrics.host, f"{_edit('metrics.host')}: 127.0.0.1, or a firewall")


def _witnesses(settings: Settings) -> Iterator[Finding]:
    witnesses = settings.witnesses
    if witnesses.policy is None:
        fix = f"{_edit('witnesses.policy')}: a file with their keys, URLs and quorum"
        yield found("witnesses-none", "witnesses.policy", "nobody is asked to cosign", fix)
        return
    try:
        load_policy(witnesses.policy, _vkey(settings))
    except ConfigurationError as error:
        says = str(error).removeprefix(f"{witnesses.policy}: ")
        yield found("policy-invalid", witnesses.policy, says, f"edit {witnesses.policy}")
    if (need := witnesses.every_ms + witnesses.timeout_ms) > witnesses.room_ms:
        says = f"{witnesses.room_ms} ms are left, and every_ms and timeout_ms are {need} ms"
        yield found("witnesses-no-room", "witnesses.room_ms", says, f"{_edit('witnesses.room_ms')}: {need}")


def _vkey(settings: Settings) -> VerifierKey | None:
    """The log's key, to compare the policy's with; of a key file that is not in order `beacon doctor` tells."""
    try:
        return SigningKey(read_key(settings.log_key), settings.origin).vkey
    except ConfigurationError:
        return None


def _edit(key: str) -> str:
    return f"set {key} in {CONFIG_NAME}"


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _overlap(one: str, other: str) -> bool:
    every = {"0.0.0.0", "::", ""}  # noqa: S104 - compared with, not bound
    return one == other or one in every or other in every or (_is_local(one) and _is_local(other))
