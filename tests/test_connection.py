"""Downloads that others control: how long they may take, how much they may send, where they may lead."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

import pytest

from verifier import fetch
from verifier.connection import UNREACHABLE, exchange
from verifier.errors import Code, FormatError

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n"


@contextmanager
def answering(answer: Callable[[socket.socket, Event], None]) -> Iterator[str]:
    """A server that reads one request after the other and does to each connection what it is told."""
    listener, ended = socket.create_server(("127.0.0.1", 0)), Event()

    def serve() -> None:
        while not ended.is_set():
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65_536)
                    answer(connection, ended)

    thread = Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/log/checkpoint"
    finally:
        ended.set()
        with suppress(OSError):
            socket.create_connection(listener.getsockname()).close()
        listener.close()
        thread.join()


def dripping(begin: bytes, drop: bytes) -> Callable[[socket.socket, Event], None]:
    def answer(connection: socket.socket, ended: Event) -> None:
        with suppress(OSError):
            connection.sendall(begin)
            while not ended.wait(0.01):
                connection.sendall(drop)

    return answer


def sending(data: bytes) -> Callable[[socket.socket, Event], None]:
    def answer(connection: socket.socket, _: Event) -> None:
        connection.sendall(data)

    return answer


@pytest.mark.parametrize(
    ("begin", "drop"),
    [
        pytest.param(b"", b"H", id="a status line"),
        pytest.param(HEAD, b"X: y\r\n", id="headers"),
        pytest.param(HEAD + b"Content-Length: 1000000\r\n\r\n", b"x", id="a body"),
        pytest.param(HEAD + b"\r\n", b"x", id="a body without an end"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", id="chunks"),
        pytest.param(b"HTTP/1.1 404 Not Found\r\nContent-Length: 1000000\r\n\r\n", b"x", id="a refusal"),
    ],
)
def test_what_never_stops_coming_is_cut_off(begin: bytes, drop: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "DOWNLOAD_SECONDS", 0.3)
    with answering(dripping(begin, drop)) as url, pytest.raises(FormatError) as raised:
        fetch.download(url)
    assert raised.value.code == Code.USAGE


def test_what_ends_too_soon_is_no_answer() -> None:
    with answering(sending(HEAD + b"Content-Length: 10\r\n\r\nshort")) as url, pytest.raises(FormatError):
        fetch.download(url)


def test_no_more_is_read_than_is_asked_for() -> None:
    with answering(sending(HEAD + b"Content-Length: 10\r\n\r\n0123456789")) as url:
        assert fetch.download(url, 10) == b"0123456789"
        assert exchange(url, limit=4, idle=5, total=5).body == b"01234"
        with pytest.raises(FormatError, match="more than 9 bytes"):
            fetch.download(url, 9)


def test_a_redirect_is_an_answer_where_none_is_followed() -> None:
    elsewhere = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.2/\r\nContent-Length: 0\r\n\r\n"
    with answering(sending(elsewhere)) as url:
        assert exchange(url, limit=4, idle=5, total=5, post=b"old 0\n", redirects=False).status == 302
        with pytest.raises(FormatError, match="another host"):
            exchange(url, limit=4, idle=5, total=5)


def test_a_redirect_to_another_protocol_of_the_same_host_is_not_followed() -> None:
    with answering(lambda connection, _: connection.sendall(elsewhere)) as url:
        place = url.removeprefix("http:")
        elsewhere = f"HTTP/1.1 302 Found\r\nLocation: ftp:{place}\r\nContent-Length: 0\r\n\r\n".encode()
        with pytest.raises(FormatError, match="another host"):
            exchange(url, limit=4, idle=5, total=5)


def test_a_name_of_many_addresses_where_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them may take all of the time that one may."""
    tried, found = [], [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"192.0.2.{n}", 80)) for n in range(200)]

    def connect(place: tuple[str, int], timeout: float, _: object) -> socket.socket:
        tried.append(place)
        Event().wait(timeout)
        raise TimeoutError

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(UNREACHABLE):
        exchange("http://w.example/", limit=4, idle=0.1, total=0.25)
    assert len(tried) <= 3


def test_the_next_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(sending(HEAD + b"Content-Length: 2\r\n\r\nok")) as url:
        port = int(url.split(":")[2].split("/")[0])
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{n}", port)) for n in (9, 1)]
        with monkeypatch.context() as patched:
            patched.setattr(socket, "getaddrinfo", lambda *_, **__: found)
            assert exchange(f"http://w.example:{port}/", limit=4, idle=5, total=5).body == b"ok"
            patched.setattr(socket, "getaddrinfo", lambda *_, **__: [])
            with pytest.raises(UNREACHABLE):
                exchange(f"http://w.example:{port}/", limit=4, idle=5, total=5)


def test_where_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(UNREACHABLE):
        exchange(f"http://127.0.0.1:{port}/", limit=4, idle=5, total=5)


def test_an_address_where_nobody_listens_is_a_plain_sentence() -> None:
    with pytest.raises(FormatError) as refused:
        fetch.download("http://127.0.0.1:1/log/checkpoint")
    assert refused.value.message == "cannot read http://127.0.0.1:1/log/checkpoint: Connection refused"
