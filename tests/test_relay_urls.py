"""Which addresses a relay may have, and that TLS certificates are checked."""

import datetime as dt
import ipaddress
import socket
import ssl

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver
from aiohttp.test_utils import TestServer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from beacon.relay_urls import check_relay_url, may_be_a_relay, public_name
from beacon.rounds.refusals import Reason, Refusal
from beacon.rounds.relays import Relay, open_session
from beacon.rounds.resolver import AddressRefused, RelayResolver
from beacon.settings import ChainSettings
from tests.round_support import QUICKNET, at

CLOCK = at(72_800)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.drand.sh",
        "https://api.drand.secureweb3.com:6875",
        "http://127.0.0.1:1",
        "http://[::1]:7/x",
        "http://relay:8080/key/abc",
        "https://10.1.2.3",
        "http://localhost:8081/",
    ],
)
def test_what_relays_have(url):
    assert check_relay_url(url) == url
    assert ChainSettings(name="x", relays=[url]).relays == [url]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.drand.sh",
        "ftp://api.drand.sh",
        "file:///etc/passwd",
        "gopher://x",
        "https://",
        "https:///path",
        "https://user:password@api.drand.sh",
        "https://user@api.drand.sh",
        "https://api.drand.sh?x=1",
        "https://api.drand.sh#x",
        "https://api.drand.sh:0",
        "https://api.drand.sh:70000",
        "https://api.drand.sh:x",
        "https://api.drand.sh\\@evil.example",
        "https://api.drand.sh/a b",
        "https://api.drand.sh/\n",
        "https://[::1",
        "https://dränd.sh",
        "http://169.254.169.254/latest",
        "http://[fe80::1]/",
        "http://[fe80::1%25eth0]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[2002:a9fe:a9fe::1]/",
        "http://0.0.0.0:80",
        "http://[::]:80",
        "http://224.0.0.1",
        "http://255.255.255.255",
        "https://" + "a" * 300,
    ],
)
def test_what_no_relay_has(url):
    with pytest.raises(ValueError, match="relay") as caught:
        check_relay_url(url)
    assert "password" not in str(caught.value).replace("user name or password", "")
    with pytest.raises(ValueError, match="relays"):
        ChainSettings(name="x", relays=[url])


def test_what_is_shown_of_a_relay_holds_no_path():
    assert public_name("https://relay.example:8443/secret/key") == "https://relay.example:8443"


def test_a_name_may_be_a_relay_until_it_is_resolved():
    assert may_be_a_relay("api.drand.sh")
    assert may_be_a_relay("192.168.1.1")
    assert not may_be_a_relay("169.254.169.254")


class Fixed(AbstractResolver):
    """Resolves every name to the same addresses."""

    def __init__(self, *addresses):
        self.addresses = addresses

    async def resolve(self, host, port=0, family=socket.AF_INET):
        return [
            {"hostname": host, "host": address, "port": port, "family": family, "proto": 0, "flags": 0}
            for address in self.addresses
        ]

    async def close(self):
        pass


async def test_a_name_that_leads_to_where_no_relay_is_is_refused(monkeypatch):
    resolver = Fixed("93.184.216.34", "169.254.169.254")
    with pytest.raises(AddressRefused):
        await RelayResolver(resolver).resolve("rebound.example", 80)
    fine = RelayResolver(Fixed("93.184.216.34"))
    assert [result["host"] for result in await fine.resolve("drand.example", 80)] == ["93.184.216.34"]

    monkeypatch.setattr("beacon.rounds.resolver.ThreadedResolver", lambda: resolver)
    async with open_session() as session:
        with pytest.raises(Refusal) as caught:
            await Relay("http://rebound.example", session, CLOCK).fetch(QUICKNET, 72_800)
        assert caught.value.reason is Reason.ADDRESS


def self_signed(folder):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "relay.pem"
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path


async def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path):
    asked = []

    async def handle(request):
        asked.append(request.path)
        return web.json_response({})

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path))
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=context)
    async with open_session() as session:
        with pytest.raises(Refusal) as caught:
            await Relay(f"https://127.0.0.1:{server.port}", session, CLOCK).fetch(QUICKNET, 72_800)
    await server.close()
    assert caught.value.reason is Reason.TLS
    assert asked == []
