"""schemathesis against the real service in a process, on a devnet: nothing that it thinks of is answered otherwise than
the document says, with a server error, or well where the document refuses it.
"""

import asyncio
import json
import os
import sys

from tests.process_support import ROOT, add_host, api, run, serving

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
]
# A clock or relays that are in doubt are answered with 503, and a body that grew too large with 413.
CONFIG = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 503]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 503]
"""
START = "from schemathesis.cli import schemathesis; schemathesis()"


async def test_schemathesis_finds_nothing(tmp_path):
    data, chain, config = tmp_path / "data", tmp_path / "chain.json", tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    async with serving("beacon", "devnet", "--port", "0", "--period", "1", "--out", chain) as relay:
        code, _, errors = await run(
            "beacon", "init", data, "--origin", "beacon.example/fuzz", "--chain-file", chain, "--relay", relay.url
        )
        assert code == 0, errors
        settings = data / "beacon.toml"
        settings.write_text(settings.read_text().replace("port = 8080", "port = 0", 1))
        token, log = await add_host(data, "alice", "--sandbox"), tmp_path / "service.log"
        async with serving("beacon", "serve", "--dir", data, log=log) as server, api(server, token) as host:
            await host.ready()
            code, output = await fuzz(server.url, token, config)
            seen = await host.get("/v1/hosts/alice")
            assert await server.stop() == 0
    assert code == 0, output[-20_000:]
    assert json.loads(seen)["sealed"] > 20, output
    assert '"unforeseen failure"' not in log.read_text()
    code, output, errors = await run("beacon", "log", "check", "--dir", data)
    assert code == 0, output + errors


async def fuzz(url, token, config):
    """Exit code and output of schemathesis; everything that it tries follows from the seed and the answers."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", START, "--config-file", str(config), "--no-color", "run", f"{url}/openapi.json",
        "--seed", "1", "--max-examples", "60", "--phases", "examples,coverage,fuzzing", "--continue-on-failure",
        "--checks", ",".join(CHECKS), "--header", f"Authorization: Bearer {token}", "--request-timeout", "30",
        "--warnings", "off", "--generation-database", "none",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=ROOT,
        env=os.environ | {"SCHEMATHESIS_HOOKS": "tests.openapi_fuzz_hooks", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    output, _ = await process.communicate()
    return process.returncode, output.decode()
