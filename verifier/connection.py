"""One HTTP request, within a time that nobody who answers can stretch, and at most so many bytes of the answer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import IO, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from verifier.errors import Code, FormatError

UNREACHABLE: Final = (URLError, HTTPException, OSError, ValueError)
"""What `exchange` raises where there is no answer."""
_AGENT: Final = {"User-Agent": "fair-beacon-verifier"}


@dataclass(frozen=True, slots=True)
class Answer:
    """Of any status. body: at most limit + 1 bytes, the last one only where there are more."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(hash=False)


def exchange(
    url: str, *, limit: int, idle: float, total: float, post: bytes | None = None, redirects: bool = True
) -> Answer:
    """Ask an http or https address; with `post` by POST, as text.

    idle, total: seconds without a byte, and from the first connection to the last byte. A redirect is followed only at
    the host that was named, or not at all. Raises what UNREACHABLE names, FormatError(USAGE) for a redirect elsewhere.
    """
    headers = _AGENT | ({"Content-Type": "text/plain; charset=utf-8"} if post is not None else {})
    request = Request(url, post, headers)  # noqa: S310 - the caller's are http and https
    with _deadline(total) as deadline:
        opener = build_opener(_Http(deadline), _Https(deadline), _SameHost() if redirects else _Nowhere())
        try:
            answer = opener.open(request, timeout=min(idle, total))
        except HTTPError as error:
            answer = error
        except UNREACHABLE:
            deadline.check()
            raise
        with closing(answer):
            body: bytes = answer.read(limit + 1)
            missing = getattr(answer, "length", None) if len(body) <= limit else None
        deadline.check()
        if missing:
            raise IncompleteRead(body, missing)
    return Answer(answer.status, body, answer.headers)


class _Deadline:
    """Cuts connections off when their time is over."""

    def __init__(self, seconds: float) -> None:
        self._seconds: Final = seconds
        self._ends: Final = time.monotonic() + seconds
        self._over = False
        self._lock: Final = threading.Lock()
        self._made: Final[list[socket.socket]] = []

    def connect(self, address: tuple[str, int], timeout: float, source: Any = None) -> socket.socket:
        """As socket.create_connection, which takes `timeout` for each address that a name has: whoever owns it says how
        many these are.
        """
        made = None
        host, port = address
        places = [str(place[0]) for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        for number, place in enumerate(places, 1):
            left = self._ends - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no connection after {self._seconds:g} s")
            try:
                made = socket.create_connection((place, port), min(timeout, left), source)
                break
            except OSError:
                if number == len(places):
                    raise
        if made is None:
            raise OSError(f"{host} has no address")
        made.settimeout(timeout)
        with self._lock:
            self._made.append(made.dup())
        self.check()
        return made

    def cut(self) -> None:
        with self._lock:
            self._over = True
            for one in self._made:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    def close(self) -> None:
        for one in self._made:
            one.close()

    def check(self) -> None:
        """Raises TimeoutError when the time is over: what was read may have been cut off."""
        if self._over:
            raise TimeoutError(f"not all there after {self._seconds:g} s")


@contextmanager
def _deadline(seconds: float) -> Iterator[_Deadline]:
    deadline = _Deadline(seconds)
    timer = threading.Timer(seconds, deadline.cut)
    timer.daemon = True
    timer.start()
    try:
        yield deadline
    finally:
        timer.cancel()
        timer.join()
        deadline.close()


def _connecting(kind: Callable[..., HTTPConnection], deadline: _Deadline) -> Any:
    def make(*arguments: Any, **named: Any) -> HTTPConnection:
        made = kind(*arguments, **named)
        made._create_connection = deadline.connect  # type: ignore[attr-defined]  # noqa: SLF001 - http.client's own seam
        return made

    return make


class _Http(HTTPHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline: Final = deadline

    def http_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_connecting(HTTPConnection, self._deadline), req)


class _Https(HTTPSHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline: Final = deadline

    def https_open(self, req: Request) -> HTTPResponse:
        return self.do_open(_connecting(HTTPSConnection, self._deadline), req)


class _SameHost(HTTPRedirectHandler):
    """Follows a redirect only where it stays at the host that was named, and never from https to http."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        asked, led = urlsplit(req.full_url), urlsplit(newurl)
        if led.netloc != asked.netloc or led.scheme not in {"https", asked.scheme}:
            raise FormatError(Code.USAGE, f"{req.full_url} leads to another host")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Nowhere(HTTPRedirectHandler):
    """Follows no redirect: it is the answer."""

    def redirect_request(self, *_: object) -> None:
        return None
