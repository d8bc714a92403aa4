"""deploy/nginx/nginx.conf: what it says agrees with the service, and a real nginx does it, in front of the real service."""

import asyncio
import contextlib
import json
import os
import re
import ssl
import subprocess
import sys

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from beacon.errors import PROBLEMS
from beacon.settings import Settings
from beacon.web import chain_routes, event_routes, middleware, server, waits
from beacon.web.log_routes import IMMUTABLE
from beacon.web.problems import row_document
from tests.deploy_support import run
from tests.nginx_support import CONFIG, NAME, free_ports, nginx, placed
from tests.outside_tools import need_curl, need_nginx
from tests.process_support import ROOT, Api, add_host, serving
from tests.process_support import run as run_program

TEXT = CONFIG.read_text()
DEFAULTS = Settings.model_construct(origin="o.example")
PER_MINUTE = 600
"""Requests of one address, where a test uses them up."""
LOCALHOST = (f"server_name {NAME}", "server_name localhost")


def value(directive):
    (found,) = {match.strip() for match in re.findall(rf"(?m)^ *{directive} ([^;]+);", TEXT)}
    return found


# --- what it says -----------------------------------------------------------------------------------------------------


def test_its_limits_are_those_of_the_service():
    assert value("client_max_body_size") == value("client_body_buffer_size") == str(DEFAULTS.limits.body_bytes)
    rate = int(re.search(r"zone=beacon_strangers:\S+ rate=(\d+)r/s", TEXT)[1])
    burst = int(re.search(r"zone=beacon_strangers burst=(\d+) nodelay", TEXT)[1])
    assert (rate * 60, burst) == (DEFAULTS.rates.address_per_minute, DEFAULTS.rates.address_per_minute)
    assert int(re.search(r"zone=beacon_everybody:\S+ rate=(\d+)r/s", TEXT)[1]) * 60 == DEFAULTS.rates.token_per_minute
    assert int(value("limit_conn beacon_connections")) > DEFAULTS.waiting.listeners_per_address
    assert int(value("worker_connections")) > 2 * DEFAULTS.waiting.listeners
    assert int(value("worker_rlimit_nofile")) > 2 * int(value("worker_connections"))


def test_its_times_fit_those_of_the_service():
    (upstream,) = re.findall(r"upstream beacon \{(.*?)\}", TEXT, re.DOTALL)
    assert f"server 127.0.0.1:{DEFAULTS.listen.port} " in upstream
    assert int(re.search(r"keepalive_timeout (\d+)s", upstream)[1]) < server.IDLE_SECONDS
    longest = max(waits.MAX_WAIT, chain_routes.MAX_WAIT, event_routes.HEARTBEAT_SECONDS)
    assert int(value("proxy_read_timeout").removesuffix("s")) > longest


@pytest.mark.parametrize(("status", "code"), [(413, "body-too-large"), (429, "rate-limited"), (503, "unavailable")])
def test_what_it_refuses_by_itself_is_a_problem_of_the_service(status, code):
    document = json.loads(re.search(rf"return {status} '(.*)';", TEXT)[1].replace("\\'", "'"))
    assert row_document(code).items() <= document.items()
    assert PROBLEMS[code].status == status
    assert document["request_id"] == "$request_id"


def test_static_answers_have_the_services_headers():
    blocks = re.findall(r"location (?:/log/tile/|= /log/log\.db) \{(.*?)\n        \}", TEXT, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        found = dict(re.findall(r"add_header (\S+) ([^\";']+) always;", block))
        assert found | {"Server": "fair-beacon"} == middleware.SECURITY_HEADERS
        assert 'add_header Strict-Transport-Security "max-age=63072000" always;' in block
        assert middleware.LOADS_NOTHING in block
    assert f'add_header Cache-Control "{IMMUTABLE}";' in blocks[0]


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.7", None),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2:"),
        ("2001:db8:1:2::9", "2001:db8:1:2:"),
        ("2001:db8::9", "2001:db8:"),
        ("::1", None),
    ],
)
def test_whom_a_limit_counts(address, network):
    pattern = re.search(r'\$beacon_network \{\s*"~(\S+)" ', TEXT)[1].replace("(?<", "(?P<")
    match = re.match(pattern, address)
    assert (match["beacon_prefix"] if match else None) == network


def test_nginx_takes_the_file(tmp_path):
    file, _ = placed(tmp_path, service=1, https=2, http=3)
    assert "test is successful" in run(need_nginx(), "-t", "-e", tmp_path / "error.log", "-c", file)
    assert "emerg" not in (tmp_path / "error.log").read_text()
    file.write_text(file.read_text().replace("limit_req ", "limit_reqs ", 1))
    assert "unknown directive" in run(need_nginx(), "-t", "-e", tmp_path / "error.log", "-c", file, code=1)


# --- in front of something that tells what it was sent ----------------------------------------------------------------


class Behind:
    """nginx in front of an application that keeps every request, and a client of it."""

    def __init__(self, client, https, http, context, seen, folder):
        self.client, self.https, self.http, self.context = client, https, http, context
        self.seen, self.folder = seen, folder
        self.url = f"https://localhost:{https}"

    async def ask(self, path, method="GET", **options):
        """Status, headers and body of a request whose path goes out as it stands."""
        async with self.client.request(method, URL(f"{self.url}{path}", encoded=True), **options) as answer:
            return answer.status, answer.headers, await answer.read()

    async def ask_from(self, address, path, headers=None):
        """Status of a request that comes from another address of this machine."""
        async with (
            aiohttp.ClientSession(connector=connector(self.context, address)) as client,
            client.get(f"{self.url}{path}", headers=headers) as answer,
        ):
            return answer.status


@contextlib.asynccontextmanager
async def behind(folder, *changes):
    seen = []

    async def tell(request):
        body = await request.read()
        seen.append((request.method, request.raw_path, request.headers.copy(), len(body)))
        return web.json_response({"from": "service"})

    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{path:.*}", tell)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    try:
        async with (
            nginx(folder, service=port, changes=(LOCALHOST, *changes)) as (https, http, context),
            aiohttp.ClientSession(connector=connector(context)) as client,
        ):
            yield Behind(client, https, http, context, seen, folder)
    finally:
        await runner.cleanup()


def connector(context, address=None):
    return aiohttp.TCPConnector(ssl=context, family=2, local_addr=address and (address, 0))


async def test_the_clients_address_and_path_reach_the_service_and_nothing_that_it_made_up(tmp_path):
    async with behind(tmp_path) as asked:
        sent = {
            "X-Forwarded-For": "203.0.113.1, 127.0.0.1",
            "Forwarded": "for=203.0.113.1",
            "Authorization": "Bearer t",
        }
        status, headers, _ = await asked.ask("/v1/x%2Fy?a=%2f", headers=sent)
        assert status == 200
        assert headers["Strict-Transport-Security"]
        await asked.ask_from("127.0.0.9", "/healthz", sent)
        (method, path, seen, _), (_, _, second, _) = asked.seen
        assert (method, path) == ("GET", "/v1/x%2Fy?a=%2f")
        assert seen.getall("X-Forwarded-For") == ["127.0.0.1"]
        assert second.getall("X-Forwarded-For") == ["127.0.0.9"]
        assert "Forwarded" not in seen
        assert seen["Authorization"] == "Bearer t"
        assert "Bearer" not in (tmp_path / "access.log").read_text()


async def test_a_body_is_taken_up_to_the_limit_and_no_further(tmp_path):
    limit = DEFAULTS.limits.body_bytes
    async with behind(tmp_path) as asked:
        status, _, _ = await asked.ask("/v1/sessions", "POST", data=b"x" * limit)
        assert (status, asked.seen[0][3]) == (200, limit)
        status, headers, body = await asked.ask("/v1/sessions", "POST", data=b"x" * (limit + 1))
        assert (status, headers["Content-Type"], json.loads(body)["code"]) == (
            413,
            "application/problem+json",
            "body-too-large",
        )
        assert re.fullmatch("[0-9a-f]{32}", json.loads(body)["request_id"])
        assert len(asked.seen) == 1


async def test_who_asks_too_often_without_a_token_is_refused_and_others_are_not(tmp_path):
    lower = (("rate=200r/s", "rate=1r/m"), ("zone=beacon_strangers burst=12000", "zone=beacon_strangers burst=4"))
    async with behind(tmp_path, *lower) as asked:
        answers = [await asked.ask("/v1/chains") for _ in range(6)]
        assert [status for status, _, _ in answers] == [200] * 5 + [429]
        _, headers, body = answers[-1]
        assert (json.loads(body)["code"], headers["Retry-After"]) == ("rate-limited", "1")
        assert (await asked.ask("/v1/chains", headers={"Authorization": "Bearer t"}))[0] == 200
        assert await asked.ask_from("127.0.0.9", "/v1/chains") == 200
        assert len(asked.seen) == 7


async def test_few_connections_of_one_stranger_are_held_at_once(tmp_path):
    async with behind(tmp_path, ("limit_conn beacon_connections 128", "limit_conn beacon_connections 1")) as asked:
        started = asyncio.Event()

        async def slowly():
            started.set()
            yield b"{"
            await asyncio.sleep(3600)

        held = asyncio.create_task(asked.ask("/v1/sessions", "POST", data=slowly()))
        await started.wait()
        for _ in range(600):
            if (await asked.ask("/v1/chains"))[0] == 429:
                break
            await asyncio.sleep(0.05)
        else:
            pytest.fail("the second connection was never refused")
        held.cancel()
        await asyncio.wait({held})


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nHost: local", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx"]
)
async def test_who_dawdles_is_cut_and_the_service_never_hears_of_it(tmp_path, sent):
    quick = (
        ("client_header_timeout 10s", "client_header_timeout 1s"),
        ("client_body_timeout 10s", "client_body_timeout 1s"),
    )
    async with behind(tmp_path, *quick) as asked:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", asked.https, ssl=asked.context, server_hostname="localhost"
        )
        writer.write(sent)
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                while await reader.read(1_000):
                    pass
        writer.close()
        assert asked.seen == []


async def test_another_name_gets_no_certificate_and_plain_http_is_sent_on(tmp_path):
    async with behind(tmp_path) as asked:
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection("127.0.0.1", asked.https, ssl=asked.context, server_hostname="other.example")
        async with asked.client.get(f"http://127.0.0.1:{asked.http}/s/x?y=1", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (308, f"https://{NAME}/s/x?y=1")
        assert asked.seen == []


async def test_a_service_that_is_away_is_said_to_be(tmp_path):
    (nobody,) = free_ports(1)
    async with (
        nginx(tmp_path, service=nobody, changes=(LOCALHOST,)) as (https, _, context),
        aiohttp.ClientSession(connector=connector(context)) as client,
        client.post(f"https://localhost:{https}/v1/sessions", data=b"{}") as answer,
    ):
        assert (answer.status, answer.headers["Retry-After"], answer.content_type) == (
            503,
            "5",
            "application/problem+json",
        )
        assert (await answer.json(content_type=None))["code"] == "unavailable"


async def test_a_service_that_ends_in_the_middle_is_no_refusal(tmp_path):
    async def gone(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(gone, "127.0.0.1", 0)
    async with (
        listener,
        nginx(tmp_path, service=listener.sockets[0].getsockname()[1], changes=(LOCALHOST,)) as (https, _, context),
        aiohttp.ClientSession(connector=connector(context)) as client,
        client.post(f"https://localhost:{https}/v1/sessions", data=b"{}") as answer,
    ):
        assert (answer.status, answer.content_type) == (502, "text/html")


async def test_only_the_one_address_of_a_full_tile_is_a_file(tmp_path):
    async with behind(tmp_path) as asked:
        tile = tmp_path / "public" / "tile" / "0" / "000"
        tile.parent.mkdir(parents=True)
        tile.write_bytes(b"\1" * 8192)
        (tmp_path / "public" / "log.db").write_bytes(b"file")
        (tmp_path / "public" / "full-tiles").write_bytes(b"mark")
        status, headers, body = await asked.ask("/log/tile/0/000")
        assert (status, body, headers["Cache-Control"], headers["Content-Type"]) == (
            200,
            b"\1" * 8192,
            IMMUTABLE,
            "application/octet-stream",
        )
        status, headers, body = await asked.ask("/log/log.db", headers={"Range": "bytes=1-2"})
        assert (status, body, headers["Content-Type"]) == (206, b"il", "application/vnd.sqlite3")
        assert asked.seen == []
        others = [
            "/log/tile/0/000?x=1", "/log/tile/0/000/", "/log//tile/0/000", "/log/tile/./0/000", "/log/tile/1/../0/000",
            "/log/tile/%30/000", "/log/tile/0/001", "/log/tile/0/000.p/5", "/log/tile/", "/log/tile/../full-tiles",
            "/log/log.db?x", "/log/./log.db", "/log/full-tiles", "/log/checkpoint", "/log/tile/entries/absent",
        ]  # fmt: skip
        for path in others:
            assert (await asked.ask(path))[2] == b'{"from": "service"}', path
        assert [path for _, path, _, _ in asked.seen] == others
        assert (await asked.ask("/log/tile/0/000", "POST", data=b"x"))[2] == b'{"from": "service"}'
        assert (await asked.ask("/log/tile/0/000", "HEAD"))[1]["Content-Length"] == "8192"


async def test_http_2_is_spoken(tmp_path):
    async with behind(tmp_path) as asked:
        shown = await asyncio.to_thread(
            run, need_curl(), "-sS", "--http2", "--cacert", tmp_path / "fullchain.pem", "--resolve",
            f"localhost:{asked.https}:127.0.0.1", "-w", " HTTP/%{http_version}", f"{asked.url}/healthz",
        )  # fmt: skip
        assert shown == '{"from": "service"} HTTP/2'


# --- in front of the real service -------------------------------------------------------------------------------------


async def test_a_whole_session_the_log_and_its_events_through_nginx(tmp_path):
    """The real service on a devnet; the SDK plays, checks every receipt and the verdict, all over TLS."""
    data, chain, front = tmp_path / "data", tmp_path / "chain.json", tmp_path / "front"
    front.mkdir()
    (port,) = free_ports(1)
    async with serving("beacon", "devnet", "--port", 0, "--period", 1, "--out", chain) as devnet:
        code, _, errors = await run_program(
            "beacon", "init", data, "--origin", "localhost/x", "--chain-file", chain, "--relay", devnet.url
        )
        assert code == 0, errors
        config = (data / "beacon.toml").read_text().replace('trusted_proxies = ""', 'trusted_proxies = "127.0.0.1 ::1"')
        limit = f"address_per_minute = {DEFAULTS.rates.address_per_minute}"
        assert limit in config
        config = config.replace(limit, f"address_per_minute = {PER_MINUTE}")
        (data / "beacon.toml").write_text(config.replace("port = 8080", f"port = {port}"))
        token = await add_host(data, "alice", "--sandbox")
        async with (
            nginx(front, service=port, changes=(LOCALHOST,)) as (https, _, context),
            aiohttp.ClientSession(connector=connector(context)) as client,
        ):
            api = Api(client, f"https://localhost:{https}", token)
            async with serving("beacon", "serve", "--dir", data) as service:
                await api.ready()
                await play(tmp_path, data, chain, front, api)
                await each_address_has_a_limit_of_its_own(context, api)
                await events_come_one_by_one(api)
                await fill_a_tile(api)
                for option in ("--full-tiles", "--database"):
                    code, _, errors = await run_program(
                        "beacon", "log", "export", front / "public", "--dir", data, option
                    )
                    assert code == 0, errors
                paths = [
                    "/log/tile/0/000",
                    "/log/tile/entries/000",
                    "/log/checkpoint",
                    "/log/log.db",
                    "/log/tile/0/001.p/1",
                ]
                served = {path: await api.get(path) for path in paths}
                for path in ("/log/tile/0/000", "/log/tile/entries/000"):
                    async with client.get(f"{service.url}{path}") as answer:
                        assert await answer.read() == served[path]
            for path in ("/log/tile/0/000", "/log/tile/entries/000", "/log/log.db"):
                assert await api.get(path) == served[path]
            await api.get("/log/checkpoint", expect=503)
    file = tmp_path / "log.db"
    file.write_bytes(served["/log/log.db"])
    code, output, errors = await run_program("beacon", "log", "check", "--file", file, "--log-key", data / "log.vkey")
    assert code == 0, output + errors


async def play(folder, data, chain, front, api):
    secret = folder / "token"
    secret.write_text(api.headers["Authorization"].removeprefix("Bearer "))
    words = [sys.executable, "-m", "beacon.examples.backgammon", "--url", api.url, "--token-file", secret, "--log-key",
             (data / "log.vkey").read_text().strip(), "--chain", chain, "--sandbox"]  # fmt: skip
    environment = os.environ | {"SSL_CERT_FILE": str(front / "fullchain.pem")}
    done = await asyncio.to_thread(
        subprocess.run,
        [str(word) for word in words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def each_address_has_a_limit_of_its_own(context, api):
    """Whatever a client says of where it comes from: one that has used its limit up takes nothing from another."""
    headers = {"X-Forwarded-For": "127.0.0.9"}
    for address, repeats, expected in (("127.0.0.9", PER_MINUTE, {200, 429}), ("127.0.0.10", 0, {200})):
        async with aiohttp.ClientSession(connector=connector(context, address)) as client:

            async def status(client=client):
                async with client.get(f"{api.url}/v1/hosts/alice", headers=headers) as answer:
                    return answer.status

            found = set(await asyncio.gather(*(status() for _ in range(2 * repeats + 1))))
            assert found == expected, address


async def events_come_one_by_one(api):
    """Each event is here before the next thing happens, though the stream stays open."""
    sealed = await api.post(
        "/v1/sessions",
        {"recipes": {"d": {"kind": "dice", "count": 1, "sides": 6}}, "profile": "live", "participants": []},
    )
    session = sealed["session"]
    async with api.client.get(f"{api.url}/v1/sessions/{session}/events") as stream:
        assert stream.content_type == "text/event-stream"

        async def next_event():
            async with asyncio.timeout(30):
                while not (line := await stream.content.readline()).startswith(b"event: "):
                    assert line
            return line.split()[1].decode()

        assert await next_event() == "seal"
        await api.post(f"/v1/sessions/{session}/draws", {"recipe": "d"})
        assert await next_event() == "call"
        assert await next_event() in {"round", "draw"}


async def fill_a_tile(api):
    one = {"recipes": {"d": {"kind": "dice", "count": 1, "sides": 6}}, "profile": "live", "participants": []}
    for _ in range(3):
        await api.post("/v1/batch/seals", {"sessions": [one] * 100})
