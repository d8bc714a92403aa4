"""What a client sends never stands in the service's log, whole requests and broken ones alike."""

import asyncio
import json
import re
from hashlib import sha256

from beacon.clock import ShiftedClock, SystemClock
from tests.lying_relay import LyingRelay
from tests.process_support import add_host, api, make_data, serving
from tests.round_support import QUICKNET

BROKEN = [
    b"GET /v1/chains HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\x01\r\n\r\n",
    b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: many\r\n\r\n",
    b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n%s\r\n",
    b"\x16\x03\x01%s\r\n\r\n",
    b"%s / HTTP/1.1\r\n\r\n",
]


async def refused(host, token, url, status):
    headers = {"Authorization": f"Bearer {token}"}
    async with host.client.post(url, json={"token": token}, headers=headers) as answer:
        assert answer.status == status


async def test_broken_requests_are_not_quoted(tmp_path):
    offset = QUICKNET.time(72_760) - SystemClock().now()
    log = tmp_path / "service.log"
    async with LyingRelay([QUICKNET], clock=ShiftedClock(offset)) as relay:
        data = tmp_path / "data"
        make_data(data, "beacon.example/secrets", relay.url, ShiftedClock(offset))
        token = await add_host(data, "alice")
        narrow = await add_host(data, "alice", "--scope", "read", "--note", "the dashboard")
        unknown = f"fb_{'u' * 43}"
        async with serving("tests.serve_shifted", data, offset, log=log) as server, api(server, token) as host:
            await host.ready()
            port = int(server.url.rsplit(":", 1)[1])
            for request in BROKEN:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request % token.encode())
                await writer.drain()
                writer.write_eof()
                await asyncio.wait_for(reader.read(), 20)
                writer.close()
                await writer.wait_closed()
            secret = "5ec2e7" * 8
            players = [{"id": "white"}]
            sealed = await host.post(
                "/v1/sessions", {"recipes": {"r": {"kind": "bytes", "count": 1}}, "participants": players}
            )
            path = f"/v1/sessions/{sealed['session']}/contributions"
            await host.post(path, {"participant": "grey", "entropy": secret}, expect=422)
            await host.post(path, {"participant": "white", "entropy": secret})
            await refused(host, narrow, f"{server.url}/v1/sessions", 403)
            await refused(host, unknown, f"{server.url}/v1/sessions", 401)
            assert await server.stop() == 0
    text = log.read_text(errors="replace")
    assert "request" in text
    for given in (token, narrow, unknown):
        assert given not in text
    for line in (json.loads(line) for line in text.splitlines() if '"event": "request"' in line):
        assert re.fullmatch("[0-9a-f]{16}", line["request_id"])
    ids = {line["status"]: line["token_id"] for line in map(json.loads, text.splitlines()) if "token_id" in line}
    assert ids[403] == sha256(narrow.encode()).hexdigest()[:8]
    assert ids[401] is None
    assert secret not in text
