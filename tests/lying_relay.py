"""A drand relay on loopback that serves recorded rounds, honestly or lying in any of the ways of LIES.

    async with LyingRelay([QUICKNET], clock=clock) as relay:
        relay.lie = "wrong-round"          # or None: honest
        ... relay.url ...

`asked` lists the paths that were asked for. Rounds come from tests/vectors/drand-rounds.json, or from `rounds`.
"""

import asyncio
import contextlib
import gzip
import hashlib
import json
from email.utils import formatdate

from aiohttp import web
from aiohttp.test_utils import TestServer
from py_ecc.optimized_bls12_381 import add, curve_order, multiply

from tests.round_support import DEFAULT, FASTNET, QUICKNET, RECORDED
from verifier.bls import reference


def info_v1(chain):
    info = chain.as_dict()
    return {name: info[name] for name in ("public_key", "period", "genesis_time", "hash")} | {
        "groupHash": info["genesis_seed"],
        "schemeID": info["scheme"],
        "metadata": {"beaconID": info["beacon_id"]},
    }


def info_v2(chain):
    info = chain.as_dict()
    info["chain_hash"] = info.pop("hash")
    return info


def outside_subgroup(group, signature):
    """The signature plus a point of small order: without a subgroup check the pairing still holds."""
    for x in range(1, 300):
        encoding = bytes([0x80]) + bytes(46) + bytes([x]) + bytes(group.point_bytes - 48)
        try:
            point = reference._decompress(group, encoding)
        except ValueError:
            continue
        low = multiply(point, curve_order)
        return reference.encode_point(group, add(reference.decode_point(group, signature), low))
    raise AssertionError


def _flip_sign(signature):
    return bytes([signature[0] ^ 0x20]) + signature[1:]


# How the JSON of an honest answer is changed. Each gets the fields, the chain, the round and the relay.
FIELD_LIES = {
    "upper-case": lambda f, *_: f | {"signature": f["signature"].upper()},
    "spaces": lambda f, *_: f | {"signature": " " + f["signature"]},
    "twice": lambda f, *_: f | {"signature": f["signature"] * 2},
    "cut-signature": lambda f, *_: f | {"signature": f["signature"][:-2]},
    "no-signature": lambda f, *_: {k: v for k, v in f.items() if k != "signature"},
    "null-signature": lambda f, *_: f | {"signature": None},
    "identity": lambda f, *_: f | {"signature": ("c0" + "00" * (len(f["signature"]) // 2 - 1))},
    "not-on-curve": lambda f, *_: f | {"signature": "80" + "00" * (len(f["signature"]) // 2 - 2) + "07"},
    "outside-subgroup": lambda f, chain, *_: (
        f | {"signature": outside_subgroup(chain.scheme.group, bytes.fromhex(f["signature"])).hex()}
    ),
    "negated": lambda f, *_: f | {"signature": _flip_sign(bytes.fromhex(f["signature"])).hex()},
    "other-round-signature": lambda f, chain, n, relay: (
        f | {"signature": relay.rounds[chain.hash, n - 1].signature.hex()}
    ),
    "wrong-chain-signature": lambda f, _, n, __: f | {"signature": RECORDED[FASTNET.hash, n].signature.hex()},
    "no-text-previous": lambda f, *_: f | {"previous_signature": []},
    "wrong-previous": lambda f, *_: f | {"previous_signature": f["signature"]},
    "forged-randomness": lambda f, *_: f | {"randomness": hashlib.sha256(b"mine").hexdigest()},
    "numeric-randomness": lambda f, *_: f | {"randomness": 4},
    "round-as-text": lambda f, *_: f | {"round": str(f["round"])},
    "round-as-boolean": lambda f, *_: f | {"round": True},
    "no-round": lambda f, *_: {k: v for k, v in f.items() if k != "round"},
    "renumbered": lambda f, *_: f | {"round": f["round"] - 1},
}


def _number_lies(chain, number, relay, lie):
    """Which other round is answered, wholly, with its own valid signature."""
    if lie == "wrong-round":
        return number - 1
    if lie == "latest-instead":
        due = [n for (chain_hash, n) in relay.rounds if chain_hash == chain.hash and chain.time(n) <= relay.now()]
        return max(due)
    if lie == "future-round":
        return min(n for (h, n) in relay.rounds if h == chain.hash and chain.time(n) > relay.now())
    return number


async def _redirect(relay, request, honest):
    return web.Response(status=302, headers={"Location": f"{relay.honest_url}{request.path}"})


async def _permanent(relay, request, honest):
    return web.Response(status=301, headers={"Location": f"{relay.honest_url}{request.path}"})


async def _cached_404(relay, request, honest):
    headers = {"Age": "86400", "Cache-Control": "public, max-age=604800, immutable", "X-Cache": "HIT"}
    return web.Response(status=404, text="not found", headers=headers)


async def _html(relay, request, honest):
    return web.Response(text="<!doctype html><title>Sign in</title>", content_type="text/html")


async def _html_as_json(relay, request, honest):
    return web.Response(text="<!doctype html><title>Sign in</title>", content_type="application/json")


async def _text(relay, request, honest):
    return web.Response(body=honest, content_type="text/plain")


async def _empty(relay, request, honest):
    return web.Response(body=b"", content_type="application/json")


async def _array(relay, request, honest):
    return web.Response(body=b"[" + honest + b"]", content_type="application/json")


async def _cut_json(relay, request, honest):
    return web.Response(body=honest[: len(honest) // 2], content_type="application/json")


async def _duplicate_keys(relay, request, honest):
    return web.Response(body=honest[:-1] + b',"round":1}', content_type="application/json")


async def _fraction(relay, request, honest):
    return web.Response(body=honest[:-1] + b',"x":1.5}', content_type="application/json")


async def _nested(relay, request, honest):
    return web.Response(body=b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}", content_type="application/json")


async def _huge(relay, request, honest):
    return web.Response(body=honest + b" " * 200_000, content_type="application/json")


async def _endless(relay, request, honest):
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    for _ in range(10_000):
        await response.write(b" " * 10_000)
    return response


async def _bomb(relay, request, honest):
    headers = {"Content-Encoding": "gzip"}
    return web.Response(body=gzip.compress(b" " * 5_000_000), content_type="application/json", headers=headers)


async def _truncated(relay, request, honest):
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(honest))})
    await response.prepare(request)
    await response.write(honest[:-10])
    request.transport.close()
    return response


async def _slow_body(relay, request, honest):
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    for byte in honest:
        await response.write(bytes([byte]))
        await relay.pause()
    return response


async def _hang(relay, request, honest):
    await relay.pause(for_good=True)
    return web.Response(status=503)


async def _hang_up(relay, request, honest):
    request.transport.abort()
    await asyncio.sleep(0)
    return web.Response()


async def _not_http(relay, request, honest):
    request.transport.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
    request.transport.close()
    return web.Response()


# What is done to the HTTP answer.
HTTP_LIES = {
    "redirect": _redirect,
    "permanent-redirect": _permanent,
    "cached-404": _cached_404,
    "html": _html,
    "html-as-json": _html_as_json,
    "text": _text,
    "empty": _empty,
    "array": _array,
    "cut-json": _cut_json,
    "duplicate-keys": _duplicate_keys,
    "fraction": _fraction,
    "nested": _nested,
    "huge": _huge,
    "endless": _endless,
    "bomb": _bomb,
    "truncated": _truncated,
    "slow-body": _slow_body,
    "hang": _hang,
    "hang-up": _hang_up,
    "not-http": _not_http,
}

NUMBER_LIES = ("wrong-round", "latest-instead", "future-round")
INFO_LIES = ("wrong-chain", "wrong-scheme", "wrong-key", "wrong-hash")
LIES = (*FIELD_LIES, *HTTP_LIES, *NUMBER_LIES, *INFO_LIES)


class LyingRelay:
    """`lie`: a name of LIES, a status code to answer rounds with, or None. `apis`: which versions it has.

    clock: rounds of later than its time are not there ("not yet"); None: all recorded rounds are there.
    missing: (chain hash, round) pairs, or whole rounds by number, that it has not got. late: round -> how many times it
    is refused before it is there.
    """

    def __init__(self, chains=(QUICKNET, DEFAULT), *, lie=None, clock=None, apis=(2, 1), rounds=None):
        self.chains = {chain.hash.hex(): chain for chain in chains}
        self.rounds = dict(RECORDED if rounds is None else rounds)
        self.lie = lie
        self.clock = clock
        self.apis = apis
        self.missing = set()
        self.late = {}
        self.asked = []
        self.headers = []
        self.not_yet = 404
        self._released = asyncio.Event()

    async def __aenter__(self):
        app = web.Application()
        app.router.add_get("/v2/chains/{chain}/info", self._info(2, info_v2))
        app.router.add_get("/v2/chains/{chain}/rounds/{round}", self._round(2))
        app.router.add_get("/{chain}/info", self._info(1, info_v1))
        app.router.add_get("/{chain}/public/{round}", self._round(1))
        app.router.add_get("/honest/{path:.*}", self._honest)
        app.on_response_prepare.append(self._date)
        self._server = TestServer(app)
        await self._server.start_server()
        self.url = f"http://127.0.0.1:{self._server.port}"
        return self

    async def __aexit__(self, *_):
        self._released.set()
        await self._server.close()

    @property
    def honest_url(self):
        """Where redirects lead: the honest answer, for whoever follows."""
        return f"{self.url}/honest"

    @property
    def rounds_asked(self):
        """The round numbers asked for, as they stood in the paths."""
        return [path.rsplit("/", 1)[1] for path in self.asked if not path.endswith("/info")]

    def now(self):
        return 2**53 if self.clock is None else self.clock.now()

    async def pause(self, *, for_good=False):
        """Wait: until the relay is closed, or a little, many times over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if for_good else 0.05):
                await self._released.wait()

    def _info(self, version, shape):
        async def handle(request):
            self.asked.append(request.path)
            chain = self.chains.get(request.match_info["chain"])
            if version not in self.apis or chain is None:
                return web.Response(status=404, text="not found")
            info = shape(chain)
            if self.lie == "wrong-chain":
                info = shape(FASTNET)
            if self.lie == "wrong-scheme":
                info |= {"scheme": "bls-unchained-on-g1"} if version == 2 else {"schemeID": "bls-unchained-on-g1"}
            if self.lie == "wrong-key":
                info |= {"public_key": FASTNET.public_key.hex()}
            if self.lie == "wrong-hash":
                info |= {"chain_hash": "00" * 32, "hash": "00" * 32}
            return web.json_response(info)

        return handle

    def _round(self, version):
        async def handle(request):
            self.asked.append(request.path)
            self.headers.append(dict(request.headers))
            chain = self.chains.get(request.match_info["chain"])
            if version not in self.apis or chain is None:
                return web.Response(status=404, text="not found")
            if isinstance(self.lie, int):
                return web.Response(status=self.lie, text="no")
            fields = self.answer(chain, int(request.match_info["round"]), version, self.lie)
            if fields is None:
                return web.Response(status=self.not_yet, text="not yet", headers={"Cache-Control": "no-cache"})
            body = json.dumps(fields).encode()
            if self.lie in HTTP_LIES:
                return await HTTP_LIES[self.lie](self, request, body)
            return web.Response(body=body, content_type="application/json")

        return handle

    def answer(self, chain, number, version, lie=None):
        """The fields of the answer, the lie included; None: not yet."""
        if chain.time(number) > self.now() or {number, (chain.hash, number)} & self.missing:
            return None
        if self.late.get(number, 0) > 0:
            self.late[number] -= 1
            return None
        stated = self.rounds.get((chain.hash, _number_lies(chain, number, self, lie)))
        if stated is None:
            return None
        fields = {"round": stated.round, "signature": stated.signature.hex()}
        if stated.previous_signature is not None:
            fields["previous_signature"] = stated.previous_signature.hex()
        if lie in FIELD_LIES:
            fields = FIELD_LIES[lie](fields, chain, stated.round, self)
        if version == 1:
            signature = bytes.fromhex(fields.get("signature") or "")
            fields = {"randomness": hashlib.sha256(signature).hexdigest()} | fields
        return fields

    async def _date(self, request, response):
        """The time, as the relay's clock has it."""
        if self.clock is not None:
            response.headers["Date"] = formatdate(self.clock.now() / 1000, usegmt=True)

    async def _honest(self, request):
        self.asked.append(request.path)
        chain, number = next(iter(self.chains.values())), int(request.path.rsplit("/", 1)[1])
        return web.json_response(self.answer(chain, number, 2))
