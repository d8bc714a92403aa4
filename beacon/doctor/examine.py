"""Everything that `beacon doctor` looks at, one part after the other. Nothing is written, and nothing is locked."""

from __future__ import annotations

from pathlib import Path

from beacon.clock import Clock
from beacon.doctor import configuration, databases, files, machine, relays, running, witnesses
from beacon.doctor.finding import Finding
from beacon.doctor.machine import Machine
from beacon.keys.log import log_signer
from beacon.settings import ConfigurationError, Settings
from beacon.witness.configured import load_policy
from verifier.drand import ChainInfo
from verifier.errors import VerifierError
from verifier.fetch import load_chain
from verifier.note import VerifierKey


async def examine(path: Path, clock: Clock, on: Machine) -> list[Finding]:
    """All findings about the data directory, or beacon.toml, at `path`."""
    settings, findings = configuration.loaded(path)
    if settings is None:
        return [*findings, *machine.examine(Settings.model_construct(origin=""), on)]
    findings += files.examine(path, settings, on)
    findings += databases.examine(settings, clock)
    findings += machine.examine(settings, on)
    findings += await relays.examine(settings, _chains(settings), clock)
    vkey = _vkey(settings)
    if settings.witnesses.policy is not None and vkey is not None and settings.log_db.exists():
        try:
            asked = load_policy(settings.witnesses.policy, vkey)
        except ConfigurationError:
            pass  # told of with the settings
        else:
            findings += await witnesses.examine(settings, asked, clock)
    return [*findings, *await running.examine(settings, vkey)]


def _chains(settings: Settings) -> dict[str, ChainInfo]:
    found = {}
    for chain in settings.chains:
        try:
            found[chain.name] = load_chain(chain.name if chain.file is None else str(chain.file))
        except VerifierError:
            continue  # told of with the settings
    return found


def _vkey(settings: Settings) -> VerifierKey | None:
    try:
        return log_signer(settings).vkey
    except ConfigurationError:
        return None
