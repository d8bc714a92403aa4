"""No secret that the suite makes is in anything that the service writes for others: held after every test, by conftest.

Every secret is remembered where it is made, or read from its file: master keys, log and witness keys, seeds, webhook
secrets, host tokens, join tokens; of services that are processes of their own also what their data directory holds,
opened with its master key. After each test all that was written meanwhile is searched for all secrets so far:

- log lines, of services in this process and of processes (`err_file`),
- the bodies of problem documents, made here or received,
- the files of public databases below the test's directory, where a seed may stand from its reveal on.

A secret is found as hex, as base64 of either alphabet at any of the three places where it can begin, as a number, and as
bytes: raw, in Python's spelling, as a list of numbers, as hex with something between; half of it is enough. Bytes and databases are searched for the secrets of the running test alone, databases in their
first 4 MiB. Not searched: what tests print, and what programs write that they start otherwise than by process_support.
"""

import base64
import io
import re
import sqlite3
import sys
import tempfile
from functools import cache, wraps
from itertools import pairwise
from pathlib import Path

import aiohttp
import pytest

from beacon import logs
from beacon.sessions.custody import CHECK, KeptSeed, MasterCipher
from beacon.sessions.joining import Joining
from beacon.store.hosts import HostStore
from beacon.store.webhooks import Encrypted
from beacon.web import problems
from beacon.webhooks.signing import Vault
from verifier import note

LEAST = 24
"""Characters of a secret's text that give it away: 12 bytes in hex, 18 in base64."""
MOST_BYTES = 64
"""What is longer than that under a cipher is a document, and holds secrets of its own."""
MOST_OF_A_DATABASE = 4 * 2**20
MOST_RAW = 100
PROBLEM = "application/problem+json"
_RUN = re.compile(r"[A-Za-z0-9+/_-]{24,}")


class LeakError(AssertionError):
    """A secret is where it must not be. The message does not hold it."""


class Watch:
    """The secrets so far, and what was written since they were last searched for."""

    def __init__(self):
        self.needles, self.raw, self.written = {}, {}, []
        self.files, self.ended = {}, set()

    def secret(self, kind, value):
        """Remember a secret: bytes, or the text of a token."""
        if isinstance(value, str):
            self.needles[value.partition("_")[2][:LEAST] or value[:LEAST]] = kind
        elif is_random(value) and value not in self.raw and value != CHECK:
            self.raw[value] = kind
            for text in texts_of(value):
                self.needles[text] = kind

    def text(self, place, text):
        self.written.append((place, text))

    def search(self, folder):
        """Raise LeakError if anything that was written holds a secret. folder: of the test, or None."""
        try:
            databases = [] if folder is None else [path for path in sorted(folder.rglob("*.db*")) if is_database(path)]
            for path in databases:
                self._keys_beside(path)
            self._read_on()
            for place, text in self.written:
                self._in_text(place, text)
            public = {path: begin(path) for path in databases if not path.name.startswith("private.db")}
            for path in public:
                self._in_database(path, public)
        finally:
            self.written.clear()
            self.raw.clear()

    def _read_on(self):
        """What processes wrote since the last time."""
        for path, (place, at) in list(self.files.items()):
            with path.open("rb") as file:
                file.seek(at)
                data = file.read()
            self.files[path] = (place, at + len(data))
            self.text(place, data.decode("utf-8", "backslashreplace"))
            if path in self.ended:
                self.ended.discard(path)
                del self.files[path]
                path.unlink()

    def _in_text(self, place, text):
        for part in windows(text):
            if (kind := self.needles.get(part)) is not None:
                raise LeakError(f"{kind} is in {place}")
        plain = text.replace("\\\\", "\\")
        for secret, kind in self.raw.items():
            if any(spelt in plain for spelt in spellings(secret)):
                raise LeakError(f"{kind} is in {place}, as bytes")

    def _in_database(self, path, public):
        """public: all of the test's: what a log has published, an auditor's database may hold too."""
        data = public[path]
        secrets = {text: secret for secret in self.raw for text in texts_of(secret)}
        found = [secrets[text] for text in windows(data.decode("latin-1")) if text in secrets]
        found += [secret for secret in list(self.raw)[:MOST_RAW] if secret in data]
        for secret in found:
            shown = [b'"%s":"%s' % (name, secret.hex().encode()) for name in (b"seed", b"link")]
            published = any(text in other for text in shown for other in public.values())
            if self.raw[secret] != "a seed" or not published:
                raise LeakError(f"{self.raw[secret]} is in the public database {path.name}")

    def _keys_beside(self, path):
        for key in path.parent.glob("*.key"):
            if key.is_file() and re.fullmatch(rb"[0-9a-f]{64}\n?", data := key.read_bytes()):
                self.secret(f"the key of {key.name}", bytes.fromhex(data.decode()))
                if path.name == "private.db":
                    self._opened(path, bytes.fromhex(data.decode()))

    def _opened(self, path, key):
        """What a private database holds, where the key opens it."""
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            for row in db.execute("SELECT commitment, nonce, ciphertext FROM seeds"):
                if (seed := MasterCipher(key).decrypt(KeptSeed(*row))) is not None:
                    self.secret("a seed", seed)
            for name, *kept in db.execute("SELECT id, nonce, ciphertext FROM webhooks"):
                if (secret := Vault(key).decrypt(name, Encrypted(*kept))) is not None:
                    self.secret("a webhook's secret", secret)
        except sqlite3.Error:  # damaged, or of a version of its own: the test's business
            pass
        finally:
            db.close()


def is_database(path):
    """Whether a file is a database, or one that SQLite keeps beside it; `master.dbc2.key` is none."""
    return path.is_file() and re.search(r"\.db($|[-.])", path.name) is not None


def begin(path):
    """The first part of a file."""
    with path.open("rb") as file:
        return file.read(MOST_OF_A_DATABASE)


def is_random(value):
    """Not one of the keys that tests write down: one byte again and again, or one after the other."""
    return len(set(value)) >= 8 and len({(b - a) % 256 for a, b in pairwise(value)}) >= 8


def windows(text):
    """Every part of the text in which a secret's beginning could stand."""
    for run in _RUN.findall(text):
        for start in range(len(run) - LEAST + 1):
            yield run[start : start + LEAST]


@cache
def spellings(value):
    """How the beginning of bytes is written out that are not one text."""
    part = value[:12]
    return (repr(part)[2:-1], *(sign.join(map(str, part)) for sign in (", ", ",")), *(part.hex(sign) for sign in " :-"))


def texts_of(value):
    """The beginnings of a secret's texts: hex, numbers, and base64 at each of the three places where it can begin."""
    yield value.hex()[:LEAST]
    yield value.hex().upper()[:LEAST]
    for order in ("big", "little"):
        yield str(int.from_bytes(value, order))[:LEAST]
    for shift in range(3):
        text = base64.b64encode(bytes(shift) + value)[4 * (shift > 0) :].decode()[:LEAST]
        yield text
        if "+" in text or "/" in text:
            yield text.replace("+", "-").replace("/", "_")


WATCH = Watch()


class Tee(io.TextIOBase):
    """Writes to a stream (None: to what is standard output then), and to the watch."""

    def __init__(self, stream):
        self.stream = stream

    def write(self, text):
        WATCH.text("a line of a log", text)
        return (self.stream or sys.stdout).write(text)

    def flush(self):
        (self.stream or sys.stdout).flush()


def err_file():
    """A file for the standard error of a service in a process of its own, which is searched after each test."""
    with tempfile.NamedTemporaryFile(prefix="service-", suffix=".stderr", delete=False) as made:
        path = Path(made.name)
    WATCH.files[path] = ("what a service's process wrote", 0)
    return path


def ended(path):
    """The process that writes to this file has ended."""
    WATCH.ended.add(path)


def watch_file(path):
    """Have a file of logs searched that a test keeps for itself."""
    WATCH.text("a log that a test keeps", Path(path).read_text(encoding="utf-8", errors="backslashreplace"))


def after(owner, name, look):
    """Call `look(arguments, result)` after a function or coroutine function of `owner`."""
    wrapped = getattr(owner, name)

    @wraps(wrapped)
    def call(*arguments, **named):
        result = wrapped(*arguments, **named)
        if hasattr(result, "__await__"):
            return awaited(result, arguments)
        look(arguments, result)
        return result

    async def awaited(result, arguments):
        value = await result
        look(arguments, value)
        return value

    setattr(owner, name, call)


def install():
    """Watch, from here on, where secrets are made and where the service writes."""

    def small(kind):
        return lambda _, value: WATCH.secret(kind, value) if value is not None and len(value) <= MOST_BYTES else None

    after(MasterCipher, "__init__", lambda given, _: WATCH.secret("a master key", given[1]))
    after(MasterCipher, "encrypt", lambda given, _: WATCH.secret("a seed", given[2]))
    after(MasterCipher, "decrypt", small("a seed"))
    after(Vault, "__init__", lambda given, _: WATCH.secret("a master key", given[1]))
    after(Vault, "encrypt", lambda given, _: small("a webhook's secret")(None, given[2]))
    after(Vault, "decrypt", small("a webhook's secret"))
    after(Joining, "token", lambda _, token: WATCH.secret("a join token", token))
    after(HostStore, "add", lambda _, token: WATCH.secret("a host's token", token))
    after(HostStore, "rotate", lambda _, token: WATCH.secret("a host's token", token))
    for key in (note.SigningKey, note.Cosigner):
        after(key, "__init__", lambda given, _: WATCH.secret("a key that signs", given[1]))
    after(problems, "problem", lambda _, made: WATCH.text("a problem document", bytes(made.body).decode()))
    after(aiohttp.ClientResponse, "read", read)
    configure = logs.configure
    logs.configure = lambda level, style, stream=None: configure(level, style, Tee(stream or sys.stderr))
    configure("info", "json", Tee(None))


def read(given, body):
    if given[0].headers.get("Content-Type", "").startswith(PROBLEM):
        WATCH.text("a problem document that was received", body.decode("utf-8", "backslashreplace"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    """Search when a test is over. What is found is an error of the test that was running."""
    result = yield
    try:
        WATCH.search(getattr(item, "funcargs", {}).get("tmp_path"))
    except LeakError as error:
        pytest.fail(str(error), pytrace=False)
    return result
