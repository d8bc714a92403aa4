"""What `standalone` needs of bytes and mathematics, with nothing but the standard library."""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib
import json
import re
from typing import Any

LARGEST = 2**53 - 1
FORBIDDEN = re.compile("[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
KINDS: dict[type, set[str]] = {
    int: {"v", "time", "round", "n", "draw", "host_seq", "links", "reveal_by", "min_contributions", "lead"},
    str: {"purpose", "recipe", "host", "label", "log", "reason", "participant", "entropy", "signature"},
}
HASHES = {"session", "commitment", "chain", "digest"}
NO_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"?|[^"\[\]{}]+', re.DOTALL)
COMMON = {"v", "type", "time"}
FIELDS = {  # of each entry: those that it has, and those that it may have
    "log": ("origin", ""),
    "chain": ("info", ""),
    "seal": (
        (
            "log host host_seq label replaces profile custody commitment links chain close_at reveal_by participants "
            "open min_contributions recipes plan attachments after sandbox"
        ),
        "round lead timelock",
    ),
    "contribution": ("session participant entropy", "signature"),
    "close": ("session contributions digest", ""),
    "round": ("chain round signature", "previous_signature"),
    "call": ("session draw recipe n purpose round contributions", ""),
    "draw": ("session recipe n purpose outcomes", "draw seed"),
    "reveal": ("session by seed draws", ""),
    "void": ("session reason seed", ""),
}


class Unusable(Exception):  # noqa: N818 - it is the answer, not a mishap
    """The document is not in its form."""


# --- bytes -----------------------------------------------------------------------------------------------------------


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def u32(number: int) -> bytes:
    return number.to_bytes(4, "big")


def lp(data: bytes) -> bytes:
    """The length in 4 bytes, then the bytes (2.1)."""
    return u32(len(data)) + data


def unhex(text: Any, length: int | None = None) -> bytes:
    if not isinstance(text, str) or not re.fullmatch("(?:[0-9a-f]{2})*", text) or length not in {None, len(text) // 2}:
        raise Unusable(f"not hex of {length or 'even'} length: {str(text)[:80]!r}")
    return bytes.fromhex(text)


def unbase64(text: str) -> bytes:
    data = base64.b64decode(text.encode("ascii"), validate=True)
    if base64.b64encode(data).decode() != text:
        raise Unusable("base64 that is not canonical")
    return data


def parse_json(text: str) -> Any:
    """JSON without duplicate keys, fractions or large numbers (3.2, 7.2)."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(items)) != len(items):
            raise Unusable("the same key twice in one object")
        return dict(items)

    def integer(digits: str) -> int:
        if digits == "-0" or len(digits) > 17 or abs(int(digits)) > LARGEST:
            raise Unusable(f"the number {digits[:20]}")
        return int(digits)

    def fraction(digits: str) -> Any:
        raise Unusable(f"the number {digits[:20]}")

    depth = 0
    for bracket in NO_BRACKET.sub("", text):  # json.loads recurses in C, beyond any limit
        depth += 1 if bracket in "[{" else -1
        if depth > 33:
            raise Unusable("nested too deeply")
    return json.loads(text, object_pairs_hook=pairs, parse_int=integer, parse_float=fraction, parse_constant=fraction)


def parse_entry(text: str) -> dict[str, Any]:
    """An entry whose bytes are canonical, with exactly the fields of its type (3.2, 3.3)."""
    entry = parse_json(text)
    if json.dumps(entry, ensure_ascii=False, separators=(",", ":")) != text or FORBIDDEN.search(text):
        raise Unusable("an entry that is not in canonical form")
    needed, optional = (set(names.split()) for names in FIELDS[entry["type"]])
    if not needed | COMMON <= entry.keys() <= needed | optional | COMMON or entry["v"] != 1:
        raise Unusable(f"a {entry['type']} with other fields than its own")
    if not all(type(count) is int for count in entry.get("draws", {}).values()):
        raise Unusable("counts that are no numbers")
    for name, value in entry.items():
        kind = next((kind for kind, names in KINDS.items() if name in names), None)
        if (kind is int and (type(value) is not int or value < 0)) or (kind is str and not isinstance(value, str)):
            raise Unusable(f"{name}: {str(value)[:80]!r}")
        if name in HASHES:
            unhex(value, 32)
    if entry.get("by", "host") not in {"service", "host", "timelock"}:
        raise Unusable("revealed by nobody")
    return dict(entry)


# --- the tree (RFC 6962) and Ed25519 (RFC 8032, with the strictness of 2.7) ------------------------------------------


def leaf_hash(entry: str) -> bytes:
    return sha256(b"\x00" + entry.encode("utf-8"))


def included(leaf: bytes, index: int, size: int, proof: list[bytes], root: bytes) -> bool:
    """RFC 9162, 2.1.3.2."""
    if not 0 <= index < size:
        return False
    node, last, computed = index, size - 1, leaf
    for sibling in proof:
        if last == 0 or len(sibling) != 32:
            return False
        if node & 1 or node == last:
            computed = sha256(b"\x01" + sibling + computed)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            computed = sha256(b"\x01" + computed + sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and computed == root


P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
BASE_Y = 4 * pow(5, P - 2, P) % P


def decode_point(data: bytes) -> Any:
    """Extended coordinates; None for what is not canonical, or no point."""
    number = int.from_bytes(data, "little")
    y, sign = number & (2**255 - 1), number >> 255
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square or (x == 0 and sign):
        return None
    x = x if x & 1 == sign else P - x
    return x, y, 1, x * y % P


def add(p: Any, q: Any) -> Any:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def multiply(scalar: int, point: Any) -> Any:
    result = (0, 1, 1, 0)
    while scalar:
        result = add(result, point) if scalar & 1 else result
        point, scalar = add(point, point), scalar >> 1
    return result


def same_point(p: Any, q: Any) -> bool:
    return bool((p[0] * q[2] - q[0] * p[2]) % P == 0 and (p[1] * q[2] - q[1] * p[2]) % P == 0)


def ed25519(key: bytes, message: bytes, signature: bytes) -> bool:
    """encode([S]B - [k]A) = R, with S < L, A of prime order, both points canonical (2.7)."""
    if len(key) != 32 or len(signature) != 64:
        return False
    a, r, s = decode_point(key), decode_point(signature[:32]), int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= L or same_point(a, (0, 1, 1, 0)) or not same_point(multiply(L, a), (0, 1, 1, 0)):
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % L
    negative = (P - a[0], a[1], 1, P - a[3])
    return same_point(add(multiply(s, decode_point(BASE_Y.to_bytes(32, "little"))), multiply(k, negative)), r)


class Key:
    """A log's key: name+id+base64(type and key), the id over name and key (C2SP signed-note).

    Of a log that changed its key the sizes that it signs stand behind it: 1-4711, or 4711-.
    """

    def __init__(self, line: str) -> None:
        text, _, sizes = line.partition(" ")
        self.text = text
        if text.count("+") < 2:
            raise Unusable("a log's key has three parts joined by +")
        self.name, stated, encoded = text.split("+", 2)
        material = unbase64(encoded)
        self.id, self.key = sha256(self.name.encode("utf-8") + b"\n" + material)[:4], material[1:]
        if unhex(stated, 4) != self.id or material[0] != 1 or len(self.key) != 32:
            raise Unusable("no Ed25519 key of a log, or its id is another's")
        low, dash, high = sizes.strip().partition("-")
        if sizes and not (low.isdecimal() and dash and (not high or high.isdecimal())):
            raise Unusable("behind a log's key stand the sizes that it signs, as 1-4711 and 4711- are")
        self.first, self.last = int(low or 0), int(high) if high else None


class Note:
    """A signed checkpoint: origin, size and root, an empty line, signatures."""

    def __init__(self, text: str) -> None:
        body, separator, tail = text.rpartition("\n\n")
        self.body = body + "\n"
        self.origin, size, root = body.split("\n")
        self.size, self.root = int(size), unbase64(root)
        lines = tail.split("\n")
        if not separator or lines.pop() or str(self.size) != size or len(self.root) != 32 or not lines:
            raise Unusable("the checkpoint is no signed note of three lines")
        self.signatures = []
        for line in lines:
            dash, name, encoded = line.split(" ")
            if dash != "\u2014":
                raise Unusable("a signature line without its dash")
            self.signatures.append((name, unbase64(encoded)))

    def signed_by(self, keys: list[Key]) -> bool:
        """Whether one of the keys that are for this size signed it, and no line of theirs is false."""
        due = [key for key in keys if key.first <= self.size and (key.last is None or self.size <= key.last)]
        mine = [
            (key.key, data[4:])
            for name, data in self.signatures
            for key in due
            if name == key.name and data[:4] == key.id
        ]
        return bool(mine) and all(ed25519(key, self.body.encode("utf-8"), signature) for key, signature in mine)


# --- from the seed to the outcomes (sections 4 and 5) ----------------------------------------------------------------


def contribution_list(items: list[dict[str, Any]]) -> bytes:
    """list(c), sorted by the bytes of the participants' ids (2.8)."""
    pairs = sorted((item["participant"].encode("utf-8"), unhex(item["entropy"])) for item in items)
    return u32(len(pairs)) + b"".join(lp(participant) + lp(entropy) for participant, entropy in pairs)


class Stream:
    """block_j = HMAC-SHA256(s_k, B, LP(recipe), u32(n), u32(j)); the stream is block_0, block_1 ... (4.1)."""

    def __init__(self, seed: bytes, binding: bytes, recipe: str, n: int) -> None:
        self.seed, self.head = seed, binding + lp(recipe.encode("utf-8")) + u32(n)
        self.data, self.used, self.blocks = b"", 0, 0

    def take(self, count: int) -> bytes:
        while len(self.data) < self.used + count:
            self.data += hmac.new(self.seed, self.head + u32(self.blocks), hashlib.sha256).digest()
            self.blocks += 1
        self.used += count
        return self.data[self.used - count : self.used]

    def uniform(self, n: int) -> int:
        """0 to n-1, by rejection (5.1)."""
        if n == 1:
            return 0
        width = ((n - 1).bit_length() + 7) // 8
        while True:
            x = int.from_bytes(self.take(width), "big")
            if x < 256**width - 256**width % n:
                return x % n


def draw(recipe: dict[str, Any], stream: Stream, decks: dict[str, Any], name: str) -> Any:
    """One outcome (5.2). `decks` keeps the cards of each deal over its draws."""
    kind, count = recipe["kind"], recipe.get("count", 0)
    if kind == "dice" and "mapping" in recipe:
        return keccak_dice(stream.take(32), count)
    if kind == "dice":
        while True:
            roll = [stream.uniform(recipe["sides"]) + 1 for _ in range(count)]
            if "reroll_ties" not in recipe or len(set(roll)) == count:
                return roll
    if kind == "integers":
        return [recipe["min"] + stream.uniform(recipe["max"] - recipe["min"] + 1) for _ in range(count)]
    if kind == "bytes":
        return stream.take(count).hex()
    if kind == "weighted":
        return [weighted(recipe["weights"], stream.uniform(sum(recipe["weights"]))) for _ in range(count)]
    if kind == "shuffle":
        cards = list(range(recipe["size"]))
        for i in range(len(cards) - 1, 0, -1):
            swap(cards, i, stream.uniform(i + 1))
        return cards
    if kind not in {"sample", "deal"}:
        raise Unusable(f"a recipe of the kind {kind}")
    moved, first = decks.setdefault(name, ({}, 0)) if kind == "deal" else ({}, 0)  # a deck, as far as it was touched
    if first + count > recipe["size"]:
        return None
    outcome = []
    for i in range(first, first + count):
        j = i + stream.uniform(recipe["size"] - i)
        outcome.append(moved.get(j, j))
        moved[j] = moved.get(i, i)
    if kind == "deal":
        decks[name] = (moved, first + count)
    return outcome


def swap(cards: list[int], i: int, j: int) -> None:
    cards[i], cards[j] = cards[j], cards[i]


def weighted(weights: list[int], x: int) -> int:
    for i, weight in enumerate(weights):
        if x < weight:
            return i
        x -= weight
    raise Unusable("no weights")


def keccak_dice(word: bytes, count: int) -> list[int]:
    faces: list[int] = []
    while True:
        faces += [byte % 6 + 1 for byte in word if byte < 252]
        if len(faces) >= count:
            return faces[:count]
        word = keccak256(word)


def keccak256(data: bytes) -> bytes:
    """Keccak-256 of fewer than 136 bytes, with the original padding."""
    lanes = [int.from_bytes((data + b"\x01" + bytes(135 - len(data)))[i : i + 8], "little") for i in range(0, 136, 8)]
    state = {(i % 5, i // 5): lane for i, lane in enumerate([*lanes, *[0] * 8])}
    state[1, 3] ^= 1 << 63
    register = 1
    for _ in range(24):
        column = [state[x, 0] ^ state[x, 1] ^ state[x, 2] ^ state[x, 3] ^ state[x, 4] for x in range(5)]
        for x, y in state:
            state[x, y] ^= column[(x - 1) % 5] ^ rotated(column[(x + 1) % 5], 1)
        x, y, lane = 1, 0, state[1, 0]
        for t in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            lane, state[x, y] = state[x, y], rotated(lane, (t + 1) * (t + 2) // 2)
        for y in range(5):
            row = [state[x, y] for x in range(5)]
            for x in range(5):
                state[x, y] = row[x] ^ (~row[(x + 1) % 5] & row[(x + 2) % 5])
        for j in range(7):
            register = (register << 1) ^ (register >> 7) * 0x171
            state[0, 0] ^= (register >> 1 & 1) << (2**j - 1)
    return b"".join((state[i % 5, i // 5]).to_bytes(8, "little") for i in range(4))


def rotated(lane: int, by: int) -> int:
    return (lane << by % 64 | lane >> (64 - by % 64)) & (2**64 - 1)


# --- drand -----------------------------------------------------------------------------------------------------------

G1_TAG = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_"
G2_TAG = b"BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_NUL_"
SCHEMES = {  # of each: length of a signature, tag, whether chained
    "bls-unchained-g1-rfc9380": (48, G1_TAG, False),
    "bls-unchained-on-g1": (48, G2_TAG, False),
    "pedersen-bls-unchained": (96, G2_TAG, False),
    "pedersen-bls-chained": (96, G2_TAG, True),
}


def chain_hash(info: dict[str, Any]) -> str:
    """The name of a drand chain (2.5)."""
    head = u32(info["period"]) + info["genesis_time"].to_bytes(8, "big")
    name = b"" if info["beacon_id"] == "default" else info["beacon_id"].encode("utf-8")
    return sha256(head + unhex(info["public_key"]) + unhex(info["genesis_seed"]) + name).hex()


def signed_round(info: dict[str, Any], entry: dict[str, Any]) -> bool | None:
    """Whether the chain signed a round (2.5, 2.6); None without py-ecc, or on another curve."""
    if info["scheme"] not in SCHEMES:
        return None
    try:
        curve = importlib.import_module("py_ecc.optimized_bls12_381")
        hashing = importlib.import_module("py_ecc.bls.hash_to_curve")
        forms = importlib.import_module("py_ecc.bls.point_compression")
    except ImportError:
        return None
    length, tag, chained = SCHEMES[info["scheme"]]
    previous = unhex(entry.get("previous_signature", ""))
    first = entry["round"] == 1
    if chained != ("previous_signature" in entry) or (chained and first and previous.hex() != info["genesis_seed"]):
        return False
    if chained and not first and len(previous) != length:
        return False

    def point(data: bytes, size: int) -> Any:
        """A canonical point of prime order, not the identity; else ValueError."""
        if len(data) != size:
            raise ValueError("another length")
        numbers = [int.from_bytes(data[i : i + 48], "big") for i in range(0, size, 48)]
        found = forms.decompress_G1(numbers[0]) if size == 48 else forms.decompress_G2(tuple(numbers))
        again = [forms.compress_G1(found)] if size == 48 else list(forms.compress_G2(found))
        if again != numbers or curve.is_inf(found) or not curve.is_inf(curve.multiply(found, curve.curve_order)):
            raise ValueError("no canonical point of prime order")
        return found

    message = sha256(previous + entry["round"].to_bytes(8, "big"))
    try:
        key, signature = point(unhex(info["public_key"]), 144 - length), point(unhex(entry["signature"]), length)
    except (ValueError, AssertionError):
        return False
    if length == 48:
        pairs = curve.pairing(curve.G2, signature), curve.pairing(key, hashing.hash_to_G1(message, tag, hashlib.sha256))
    else:
        pairs = curve.pairing(signature, curve.G1), curve.pairing(hashing.hash_to_G2(message, tag, hashlib.sha256), key)
    return bool(pairs[0] == pairs[1])
