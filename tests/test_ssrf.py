"""Addresses that lead elsewhere than they seem to: no request of webhooks, relays and witnesses reaches what is not for it.

Webhooks are strangers' addresses and go to the public internet alone. Relays and witnesses are the operator's and may be
at home, but not where clouds have their metadata. Every spelling of an address goes through the system's own resolver.
"""

import asyncio
import contextlib
import socket

import pytest

from beacon.relay_urls import check_relay_url
from beacon.rounds.refusals import Reason, Refusal
from beacon.rounds.relays import Relay, open_session
from beacon.settings import ConfigurationError
from beacon.witness.client import Client, Result
from beacon.witness.configured import load_policy
from tests.round_support import QUICKNET, at
from tests.test_relay_urls import Fixed
from tests.test_webhooks import sender
from tests.witness_support import policy_of
from verifier.note import SigningKey

LOOPBACK = ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "017700000001", "0177.0.0.1", "localhost",
            "LOCALHOST", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "0"]  # fmt: skip
METADATA = ["169.254.169.254", "169.254.43518", "2852039166", "0xa9fea9fe", "0xa9.254.169.254", "025177524776",
            "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[fe80::1]"]  # fmt: skip
REFUSED = {"address-refused", "not-http"}
"""By the address; or as no URL at all, which aiohttp says of numbers that systems read as addresses."""
KEY = SigningKey(b"\x01" * 32, "w").vkey


@contextlib.asynccontextmanager
async def listening():
    """A port of this machine, on every address of it, and what came there."""
    came = []

    async def handle(reader, writer):
        came.append(await reader.read(100))
        writer.close()

    with contextlib.ExitStack() as stack:
        first = stack.enter_context(socket.create_server(("0.0.0.0", 0)))
        port = first.getsockname()[1]
        servers = [await asyncio.start_server(handle, sock=first)]
        if socket.has_ipv6:
            with contextlib.suppress(OSError):
                second = stack.enter_context(socket.create_server(("::1", port), family=socket.AF_INET6))
                servers.append(await asyncio.start_server(handle, sock=second))
        try:
            yield port, came
        finally:
            for server in servers:
                server.close()
                await server.wait_closed()


@pytest.mark.parametrize("host", LOOPBACK)
async def test_no_webhook_reaches_this_machine_however_it_is_spelt(host):
    async with listening() as (port, came), sender(networks=()) as made:
        outcome = await made.send(f"http://{host}:{port}/", b"{}", {})
    assert (outcome.delivered, came) == (False, [])
    assert outcome.text in REFUSED


@pytest.mark.parametrize("host", METADATA)
async def test_no_webhook_reaches_a_clouds_metadata_however_it_is_spelt(host):
    async with sender(networks=()) as made:
        assert (await made.send(f"http://{host}/latest/", b"{}", {})).text in REFUSED


async def test_the_network_that_is_allowed_opens_no_other():
    async with listening() as (port, came), sender(networks=("10.0.0.0/8",)) as made:
        for host in LOOPBACK:
            assert (await made.send(f"http://{host}:{port}/", b"{}", {})).text in REFUSED
    assert came == []


def may_be(url):
    try:
        check_relay_url(url)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("host", METADATA)
async def test_no_relay_is_a_clouds_metadata_however_it_is_spelt(host):
    url = f"http://{host}:80"
    if may_be(url):
        async with open_session() as session:
            with pytest.raises(Refusal) as caught:
                await Relay(url, session, at(72_800)).fetch(QUICKNET, 72_800)
        assert caught.value.reason in {Reason.ADDRESS, Reason.HTTP}
        assert "leads to" in caught.value.detail or "InvalidUrl" in caught.value.detail
    else:
        assert "." in host or ":" in host, "what is no address on its face is a name, and judged when it is resolved"


@pytest.mark.parametrize("host", METADATA)
async def test_no_witness_is_a_clouds_metadata_however_it_is_spelt(host, tmp_path):
    url = f"http://{host}:80"
    (tmp_path / "policy").write_text(policy_of(url))
    if may_be(url):
        client = Client(10.0)
        answer = await client.add_checkpoint(url, "old 0\n\n", "o\n0\n\n", KEY)
        await client.close()
        assert answer.result is Result.UNREACHABLE
        assert answer.detail in {"address refused", "InvalidUrlClientError"}
    else:
        with pytest.raises(ConfigurationError, match="link-local"):
            load_policy(tmp_path / "policy", None)


async def test_a_witness_whose_name_leads_to_metadata_tomorrow_is_not_asked_then(monkeypatch):
    monkeypatch.setattr("beacon.rounds.resolver.ThreadedResolver", lambda: Fixed("169.254.169.254"))
    client = Client(10.0)
    answer = await client.add_checkpoint("https://rebound.example", "old 0\n\n", "o\n0\n\n", KEY)
    await client.close()
    assert (answer.result, answer.detail) == (Result.UNREACHABLE, "address refused")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_nobody_is_led_elsewhere(status):
    """A redirect is an answer like another: what it names is not asked."""

    async def handle(reader, writer):
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        place = f"http://127.0.0.1:{port}/inner"
        writer.write(
            f"HTTP/1.1 {status} x\r\nLocation: {place}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()

    asked = []
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with listening() as (port, came), server:
        async with sender() as made:
            assert (await made.send(f"{url}/hook", b"{}", {})).text == f"status {status}"
        async with open_session() as session:
            with pytest.raises(Refusal) as caught:
                await Relay(url, session, at(72_800)).fetch(QUICKNET, 72_800)
        assert caught.value.reason is Reason.REDIRECT
        client = Client(10.0)
        assert (await client.add_checkpoint(url, "old 0\n\n", "o\n0\n\n", KEY)).result is Result.FAILED
        await client.close()
    assert len(asked) >= 3
    assert came == []
