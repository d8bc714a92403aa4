"""What others write cannot begin a line of a log, forge one, or command the terminal that shows it; nor what the CLI prints."""

import ast
import asyncio
import contextlib
import io
import json
import logging
from pathlib import Path

import pytest

from beacon import logs
from beacon.cli_common import Failed, errors
from beacon.printing import say
from beacon.rounds.refusals import Refusal
from beacon.rounds.relays import Relay, open_session
from beacon.settings import ConfigurationError
from beacon.witness.client import Client, Result
from tests.round_support import QUICKNET, at
from tests.session_support import PLAYERS, RECIPES, service
from tests.test_webhooks import LOOPBACK, sender
from tests.web_support import headers, web_of
from verifier.note import SigningKey
from verifier.terminal import printable

FORGED = '{"event": "forged", "level": "info"}'
HOSTILE = f"x\r\n{FORGED}\n\x1b]0;owned\x07\x9b31m\u202egood\u2069\x7f\u2028\ufeff\x00end"
ROOT = Path(__file__).parents[1]


@pytest.fixture(params=["json", "console"])
def output(request):
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure("debug", request.param, stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def is_clean(text):
    """Whether no character of the text commands anything, and no line of it is one that somebody else began."""
    assert {character for character in text if character != "\n" and printable(character) != character} == set()
    for line in text.splitlines():
        assert not line.startswith((FORGED, "forged", "\\u001b")), line
    return True


def fail_with(message):
    try:
        raise_it(ValueError(message))
    except ValueError as error:
        return error


def raise_it(error):
    raise error


def test_the_text_would_do_it_all():
    assert HOSTILE.splitlines()[1] == FORGED
    with pytest.raises(AssertionError):
        is_clean(HOSTILE)
    with pytest.raises(AssertionError):
        is_clean(f"x\n{FORGED}")


def test_no_place_of_a_record_carries_it(output):
    log = logs.get("beacon.test")
    log.info("plain", value=HOSTILE, other=1)
    log.info(HOSTILE)
    log.warning("nested", inner={HOSTILE: [HOSTILE, {"deep": HOSTILE}]}, pair=(HOSTILE, 1), data=HOSTILE.encode())
    log.error("failed", exc_info=fail_with(HOSTILE))
    logging.getLogger("some.library").warning("of a library: %s", HOSTILE)
    logging.getLogger("some.library").error("of a library", exc_info=fail_with(HOSTILE))
    logs.access("beacon.test", method=HOSTILE, status=200)
    text = output.getvalue()
    assert is_clean(text)
    assert "ValueError" in text
    lines = text.splitlines()
    if lines[0].startswith("{"):
        records = [json.loads(line) for line in lines]
        assert len(records) == 7
        assert records[0]["value"] == records[1]["event"] == records[6]["method"] == HOSTILE
        assert [record["event"] for record in records].count("forged") == 0
    else:
        assert len([line for line in lines if not line.startswith("    ")]) == 7


async def test_nothing_that_a_client_sends_gets_into_a_line(tmp_path, output):
    """User agents, addresses, tokens, labels, names, keys: as far as HTTP carries them."""
    mild = HOSTILE.replace("\r", "").replace("\n", "").replace("\x00", "").replace("\x7f", "").replace("\x1b", "")
    agent = mild.encode("latin-1", "ignore").decode("latin-1").replace("\x07", "")
    async with service(tmp_path) as running, web_of(running) as client:
        for body in (
            {"label": HOSTILE, "recipes": RECIPES, "participants": PLAYERS},
            {HOSTILE: 1, "recipes": RECIPES, "participants": PLAYERS},
            {"recipes": {HOSTILE: RECIPES["turn"]}, "participants": [{"id": HOSTILE}]},
        ):
            sent = headers() | {"User-Agent": agent, "X-Forwarded-For": agent, "Referer": agent}
            async with client.post("/v1/sessions", json=body, headers=sent) as answer:
                assert answer.status in {400, 422}
        for path in ("/v1/sessions/{}", "/nowhere/{}", "/hosts/{}", "/?q={}", "/log/{}", "/static/x/{}"):
            async with client.get(path.format(HOSTILE), headers={"Accept": "text/html", "User-Agent": agent}) as answer:
                assert answer.status in {200, 400, 404}
        async with client.get("/v1/sessions", headers={"Authorization": f"Bearer {agent}"}) as answer:
            assert answer.status == 401
    text = output.getvalue()
    assert text.count("request") >= 10
    assert "owned" not in text
    assert is_clean(text)


HEAD = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n"
BYTES = HOSTILE.encode()
PHRASE = b"\x9b31m forged \xe2\x80\xae"


def answered(body, status=b"200 OK", media=b"application/json", more=b""):
    return HEAD % (status, media, len(body), more) + body


ANSWERS = {
    "a body of it": answered(BYTES),
    "JSON of it": answered(json.dumps({"round": HOSTILE, "signature": HOSTILE, HOSTILE: 1}).encode()),
    "a number of it": answered(b'{"round": 1.' + b"0" * 30 + b"}"),
    "a status of it": answered(b"{}", status=b"418 " + PHRASE),
    "a server error of it": answered(BYTES, status=b"503 " + PHRASE),
    "a media type of it": answered(b"{}", media=PHRASE),
    "a redirect to it": answered(b"", status=b"302 " + PHRASE, more=b"Location: http://" + PHRASE + b"/\r\n"),
    "a time to wait of it": answered(b"", status=b"429 " + PHRASE, more=b"Retry-After: " + PHRASE + b"\r\n"),
    "a conflict of it": answered(BYTES, status=b"409 " + PHRASE, media=b"text/x.tlog.size"),
    "no HTTP": BYTES,
    "a status line of it": b"HTTP/1.1 " + BYTES + b"\r\n\r\n",
    "a header of it": b"HTTP/1.1 200 OK\r\n" + BYTES + b": 1\r\n\r\n",
}


@contextlib.asynccontextmanager
async def saying(answer):
    """A server that says these bytes to whatever it is asked."""

    async def handle(reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("name", ANSWERS)
async def test_no_answer_of_a_relay_carries_it(name, output):
    async with saying(ANSWERS[name]) as url, open_session() as session:
        relay = Relay(url, session, at(72_800))
        with pytest.raises(Refusal) as caught:
            await relay.fetch(QUICKNET, 72_800)
        relay.failed(QUICKNET, 72_800, caught.value, 1.0)
    assert is_clean(output.getvalue())
    assert "relay refused" in output.getvalue()
    assert is_clean(str(caught.value))


@pytest.mark.parametrize("name", ANSWERS)
async def test_no_answer_of_a_witness_carries_it(name, output):
    client = Client(10.0)
    async with saying(ANSWERS[name]) as url:
        answer = await client.add_checkpoint(url, "old 0\n\n", "o\n0\n\n", SigningKey(b"\x01" * 32, "w").vkey)
    await client.close()
    assert answer.result is not Result.COSIGNED
    assert is_clean(answer.detail)
    logs.get("beacon.witness").warning("a witness did not cosign", witness="w", detail=answer.detail)
    assert is_clean(output.getvalue())


@pytest.mark.parametrize("name", ANSWERS)
async def test_no_answer_of_a_receiver_of_webhooks_carries_it(name):
    async with saying(ANSWERS[name]) as url, sender((LOOPBACK,)) as made:
        outcome = await made.send(url, b"{}", {})
    assert is_clean(outcome.text)
    assert len(outcome.text) < 40


# the command line


def printed(capsys):
    found = capsys.readouterr()
    return found.out + found.err


def test_the_command_line_says_it_in_escapes(capsys):
    say(HOSTILE)
    say(HOSTILE, err=True)
    text = printed(capsys)
    assert {one for one in text if one != "\n" and printable(one) != one} == set()
    assert text.count("\\u001b]0;owned") == 2


@pytest.mark.parametrize("error", [Failed(HOSTILE), ConfigurationError(HOSTILE), OSError(2, HOSTILE, HOSTILE)])
def test_a_refusal_says_it_in_escapes(error, capsys):
    with pytest.raises(Failed) as caught, errors():
        raise error
    caught.value.show()
    text = printed(capsys)
    assert "owned" in text
    assert {one for one in text if one != "\n" and printable(one) != one} == set()


def test_every_command_prints_by_the_one_way():
    """`say` alone calls click.echo, and `Failed` alone is a ClickException."""
    shows = [path for path in (ROOT / "beacon").rglob("*.py") if not ({"examples", "client"} & set(path.parts))]
    assert len(shows) > 100
    for path in sorted(path for path in shows if not path.name.startswith("demo")):
        calls = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "click"
            and node.attr in {"echo", "secho", "ClickException"}
        ]
        assert len(calls) == (1 if path.name in {"cli_common.py", "printing.py"} else 0), path
