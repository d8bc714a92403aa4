"""The service itself, if it runs: does it go on, can it seal, and is it this directory's?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import aiohttp

from beacon.doctor.finding import Finding, fine, found
from beacon.settings import ListenSettings, Settings
from verifier.encoding import parse_any_json
from verifier.errors import FormatError
from verifier.note import VerifierKey

SECONDS: Final = 4.0
MAX_ANSWER: Final = 256 * 1024
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - what to ask instead


async def examine(settings: Settings, vkey: VerifierKey | None) -> list[Finding]:
    """What answers at the address of the settings. vkey: the log's key, None where it cannot be told."""
    if settings.listen.port == 0:
        return [fine("service", "listen.port", "0: where it listens cannot be known")]
    url = _url(settings.listen)
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    try:
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as client:
            _, own = await _get(client, f"{url}/log/vkey")
            status, text = await _get(client, f"{url}/healthz")
            _, ready = await _get(client, f"{url}/readyz")
    except aiohttp.ClientConnectorError:
        return [fine("service", url, "does not run")]
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
        return [_taken(url, "what answers is no beacon")]
    health, readiness = _object(text), _object(ready)
    if "healthy" not in health or "ready" not in readiness:
        return [_taken(url, "what answers is no beacon")]
    if vkey is not None and own.strip() != str(vkey):
        return [_taken(url, "what answers is another log's beacon")]
    if status != 200:
        fix = "systemctl restart beacon: it checks the log and goes on, or says why not"
        return [found("service-stopped", url, str(health.get("stopped")), fix)]
    if readiness["ready"] is not True:
        says = "; ".join(_troubles(readiness)) or "see /readyz"
        return [found("service-not-ready", url, says, f"curl -sS {url}/readyz, and mend what is above")]
    return [fine("service", url, "runs and can seal")]


def _troubles(readiness: dict[str, Any]) -> Iterator[str]:
    """What `/readyz` says that is wrong, as far as it is what that says."""
    if isinstance(writes := readiness.get("writes"), str):
        yield writes
    chains = readiness.get("chains")
    for name, chain in chains.items() if isinstance(chains, dict) else ():
        if isinstance(chain, dict) and chain.get("detail"):
            yield f"{name}: {chain['detail']}"


def _taken(url: str, says: str) -> Finding:
    return found("port-taken", url, says, "set listen.port in beacon.toml to another one, or end what listens there")


def _url(listen: ListenSettings) -> str:
    host = _EVERYWHERE.get(listen.host, f"[{listen.host}]" if ":" in listen.host else listen.host)
    return f"http://{host}:{listen.port}"


async def _get(client: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with client.get(url, allow_redirects=False) as response:
        body = bytearray()
        async for part in response.content.iter_any():
            body += part
            if len(body) > MAX_ANSWER:
                raise ValueError("more than a beacon answers")
        return response.status, body.decode("utf-8", "replace")


def _object(text: str) -> dict[str, Any]:
    try:
        value = parse_any_json(text.encode())
    except FormatError:
        return {}
    return value if isinstance(value, dict) else {}
