"""Records of every other system that agree, made from a source of chance; and single changes to them.

A builder gives (record, options, inputs): `inputs` names the fields whose change is no certain difference, because they
stand for one value of few, or for nothing that is hashed ("/name" only at the top).
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.builder import VECTORS
from verifier.keccak import KeccakDice
from verifier.systems import (
    bustabit,
    casino_sdk,
    cube,
    freebitco,
    mapping,
    one_time_codes,
    raffair,
    rfc3797,
    skinclub,
    stake,
    wallop,
)

Built = tuple[dict[str, Any], dict[str, str], set[str]]
TEXTS = ("ordinary", "שש־בש", "a\nb", "", "é", 'quote " and \\', "\u2028\u0000", "🎲🎲", "x" * 70, "{nonce}")


def text(chance: random.Random, minimum: int = 0) -> str:
    found = chance.choice(TEXTS) + str(chance.randrange(1000))
    return found if len(found) >= minimum else "text"


def hexes(chance: random.Random, count: int = 32) -> str:
    return chance.randbytes(count).hex()


def sha256(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def _cube(chance: random.Random) -> Built:
    seed, count = text(chance, 1), chance.randrange(12, 60)
    rolls = cube.rolls(seed, count)[0]
    record: dict[str, Any] = {"seed": seed, "fingerprint": sha256(seed)}
    if chance.random() < 0.5:
        return record | {"rolls": rolls}, {}, set()
    cut = chance.randrange(1, count)
    return record | {"games": [{"rolls": rolls[:cut]}, {"rolls": rolls[cut:]}]}, {}, set()


def _casino_sdk(chance: random.Random) -> Built:
    word, index = chance.choice([chance.randbytes(32), b"\xff" * 32, b"\xfc" * 31 + b"\x05"]), chance.randrange(33)
    record: dict[str, Any] = {"word": word.hex()}
    options = {}
    source = KeccakDice(word)
    if chance.random() < 0.5:
        source, record["index"] = KeccakDice(word, index), index
        record["rolls"] = [
            [source.roll() for _ in range(chance.randrange(1, 6))] for _ in range(chance.randrange(12, 30))
        ]
    else:
        options["width"] = chance.choice(["fewest", "7", "8", "32"])
        width = None if options["width"] == "fewest" else int(options["width"])
        record["uniform"] = []
        for _ in range(20):
            n = chance.choice([1, 6, 52, 256, 257, 65_536, 2**53 - 1, chance.randrange(1, 10**9)])
            record["uniform"].append({"n": n, "value": casino_sdk.uniform(source, n, width)})
    record["after"] = {"word": source.word.hex(), "index": source.index}
    return record, options, {"n", "/index"}


def _nard(chance: random.Random) -> Built:
    options = {
        "hash": chance.choice(["sha256", "sha512"]),
        "key": chance.choice(["bytes", "text"]),
        "length-bytes": chance.choice(["1", "2", "4", "8", "decimal"]),
        "number-bytes": chance.choice(["2", "4", "8", "decimal"]),
        "byte-order": chance.choice(["big", "little"]),
        "order": chance.choice(["binding-first", "number-first"]),
        "dice": chance.choice(["bytes", "u32"]),
    }
    seed, first = chance.randbytes(chance.choice([16, 32, 80])), chance.randrange(300)
    key = seed if options["key"] == "bytes" else seed.hex().encode()
    binding = [text(chance) for _ in range(chance.randrange(1, 4))]

    def part(value: int, width: str) -> bytes:
        return str(value).encode() if width == "decimal" else value.to_bytes(int(width), options["byte-order"])  # type: ignore[arg-type]

    def roll(number: int) -> list[int]:
        lp = b"".join(part(len(one.encode()), options["length-bytes"]) + one.encode() for one in binding)
        counted = part(number, options["number-bytes"])
        message = lp + counted if options["order"] == "binding-first" else counted + lp
        return mapping.faces(hmac.new(key, message, options["hash"]).digest(), 2, options["dice"])

    rolls = [roll(first + i) for i in range(15)]
    return (
        {"seed": seed.hex(), "commitment": sha256(key), "binding": binding, "first": first, "rolls": rolls},
        options,
        set(),
    )


def _boardgammon(chance: random.Random) -> Built:
    options = {
        "template": chance.choice(
            [
                "{client_entropy}:{nonce}",
                "{game}/{nonce}/{commitment}/{client_entropy}",
                "{nonce}{client_entropy}{game}",
            ]
        ),
        "hash": chance.choice(["sha256", "sha512"]),
        "key": chance.choice(["bytes", "text"]),
        "dice": chance.choice(["bytes", "u32"]),
    }
    game, first = text(chance), chance.choice([0, 1, 57])
    rolls = []
    for nonce in range(first, first + chance.randrange(1, 6)):
        seed, entropy = chance.randbytes(32), text(chance)
        key = seed if options["key"] == "bytes" else seed.hex().encode()
        values = {"{game}": game, "{nonce}": str(nonce), "{commitment}": sha256(key), "{client_entropy}": entropy}
        message = re.sub(
            "|".join(map(re.escape, values)), lambda found, values=values: values[found[0]], options["template"]
        )
        dice = mapping.faces(hmac.new(key, message.encode(), options["hash"]).digest(), 2, options["dice"])
        rolls.append(
            {
                "nonce": nonce,
                "commitment": sha256(key),
                "server_seed": seed.hex(),
                "client_entropy": entropy,
                "dice": dice,
            }
        )
    receipts = [{name: roll[name] for name in ("nonce", "client_entropy", "commitment")} for roll in rolls]
    return {"game": game, "first": first, "rolls": rolls, "receipts": receipts}, options, {"game"}


def _commit_reveal(chance: random.Random) -> Built:
    options = {"key": chance.choice(["raw", "text"]), "count-from": "0"}
    seed, client, match, nonce = chance.randbytes(32), text(chance), text(chance), text(chance)
    key = seed if options["key"] == "raw" else seed.hex().encode()
    first, rolls = chance.randrange(3), []
    for k in range(first, first + 15):
        mac = hmac.new(key, f"{client}:{match}:{k}".encode(), "sha256").digest()
        rolls.append([int.from_bytes(mac[i : i + 4], "big") % 6 + 1 for i in (0, 4)])
    record = {"server_seed": seed.hex(), "client_seed": client, "match_id": match, "nonce": nonce, "first": first}
    return record | {"commitment": sha256(seed + match.encode() + nonce.encode()), "rolls": rolls}, options, set()


def _bustabit(chance: random.Random) -> Built:
    options = {"hashing": chance.choice(["bytes", "text"])}
    salt, game, games = text(chance), chance.randbytes(32), []
    for _ in range(12):
        games.append({"hash": game.hex(), "bust": mapping.hundredths(bustabit.bust(salt, game))})
        last, game = game, bustabit.earlier(game, options["hashing"])
    steps = chance.randrange(5)
    for _ in range(steps):
        last = bustabit.earlier(last, options["hashing"])
    return {"salt": salt, "games": games, "end": last.hex(), "steps_to_end": steps}, options, set()


def _stake(chance: random.Random) -> Built:
    options = {
        "game": chance.choice(["dice", "integers", "floats"]),
        "range": chance.choice(["6", "37", "52", "4294967296"]),
    }
    server, client, bets = hexes(chance), text(chance), []
    for nonce in range(12):
        u = stake.numbers(server, client, nonce, 11)
        if options["game"] == "dice":
            result: Any = mapping.hundredths(u[0] * 10_001 // 2**32)
        else:
            result = [one * int(options["range"]) // 2**32 for one in u] if options["game"] == "integers" else u
        bets.append({"nonce": nonce, "result": result})
    record = {"server_seed": server, "server_seed_hash": sha256(server), "client_seed": client, "bets": bets}
    return record, options, {"nonce"}


def _rfc3797(chance: random.Random) -> Built:
    sources = [[chance.randrange(100) for _ in range(chance.randrange(1, 6))] for _ in range(3)]
    key, pool = rfc3797.key_of(sources), [f"{text(chance)} {i}" for i in range(30)]
    selected = [pool[place] for place in rfc3797.select(key, 30, 12)]
    return {"pool": pool, "sources": sources, "key": key, "selected": selected}, {}, {"pool"}


def _freebitco(chance: random.Random) -> Built:
    server, client = text(chance, 1), text(chance)
    rolls = [{"nonce": nonce, "roll": freebitco.roll(server, client, nonce)} for nonce in range(5)]
    record = {"server_seed": server, "server_seed_hash": sha256(server), "client_seed": client, "rolls": rolls}
    return record, {}, {"nonce"}


def _skinclub(chance: random.Random) -> Built:
    server, client, salt = text(chance, 1), text(chance, 1), text(chance, 1)
    rolls = [{"nonce": nonce, "roll": skinclub.roll(server, client, nonce)} for nonce in range(5)]
    if chance.random() < 0.3:
        return {"beacon": server, "client_seed": client, "rolls": rolls}, {}, {"nonce"}
    record = {"server_seed": server, "secret_salt": salt, "public_hash": skinclub.public_hash(server, salt).hex()}
    return record | {"client_seed": client, "rolls": rolls}, {}, {"nonce"}


def _wallop(chance: random.Random) -> Built:
    name = chance.choice(["uuid", "id"])
    entries = [{name: f"{text(chance)}{i}", "weight": chance.randrange(1, 9)} for i in range(20)]
    chance.shuffle(entries)
    listed = [(entry[name], entry["weight"]) for entry in entries]
    record: dict[str, Any] = {"entries": entries, "drand_randomness": hexes(chance)}
    if chance.random() < 0.5:
        record["draw_id"] = text(chance)
    if chance.random() < 0.5:
        record["weather_value"] = text(chance)
    record["entry_hash"] = sha256(wallop.entries_jcs(listed, record.get("draw_id"), name))
    record["seed"] = sha256(
        wallop.seed_jcs(record["entry_hash"], record["drand_randomness"], record.get("weather_value"))
    )
    record["winners"] = wallop.pick(listed, bytes.fromhex(record["seed"]), 15)
    return record, {}, set()


def _raffair(chance: random.Random) -> Built:
    seed, randomness, tickets = chance.randbytes(32), chance.randbytes(32), list(range(1, 51))
    winners = [
        tickets[raffair.index(raffair.mixed(seed, randomness, i, raffair.list_hash(tickets)), 50)] for i in range(15)
    ]
    record = {"seed": seed.hex(), "commitment": sha256(seed), "drand_randomness": randomness.hex(), "tickets": tickets}
    return record | {"ticket_list_hash": raffair.list_hash(tickets).hex(), "winners": winners}, {}, set()


def _blockrand(chance: random.Random) -> Built:
    player, server, signature = text(chance, 1), text(chance, 1), hexes(chance, 48)
    record = {
        "player_secret": player,
        "player_hash": sha256(player),
        "server_secret": server,
        "server_hash": sha256(server),
    }
    record |= {"drand_signature": signature, "drand_randomness": sha256(bytes.fromhex(signature))}
    return record | {"final_seed": sha256(f"{player}:{server}:{signature}")}, {}, set()


def _hubx(chance: random.Random) -> Built:
    block, nonce, count = hexes(chance), text(chance), chance.randrange(1, 1000)
    value = sha256(block + nonce)
    record = {
        "block_hash": block,
        "nonce": nonce,
        "participants": count,
        "value": value,
        "index": int(value, 16) % count,
    }
    return record, {}, {"participants"}


def _one_time_codes(chance: random.Random) -> Built:
    secret, last = text(chance, 1), chance.randrange(1, 20)
    codes = [one_time_codes.power(secret.encode(), last + i).hex() for i in range(4, -1, -1)]
    return {"codes": codes, "secret": secret, "power": last}, {}, set()


BUILDERS: dict[str, Callable[[random.Random], Built]] = {
    "cube": _cube,
    "casino-sdk": _casino_sdk,
    "nard": _nard,
    "boardgammon": _boardgammon,
    "commit-reveal": _commit_reveal,
    "bustabit": _bustabit,
    "stake": _stake,
    "rfc3797": _rfc3797,
    "freebitco": _freebitco,
    "skinclub": _skinclub,
    "wallop": _wallop,
    "raffair": _raffair,
    "blockrand": _blockrand,
    "hubx": _hubx,
    "one-time-codes": _one_time_codes,
}

Path = tuple[str | int, ...]


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """Where a record's numbers and strings are."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))
    else:
        yield path


def changed(record: dict[str, Any], path: Path, chance: random.Random) -> dict[str, Any]:
    """A copy in which one value is another of its kind."""
    result = copy.deepcopy(record)
    parent: Any = result
    for key in path[:-1]:
        parent = parent[key]
    value = parent[path[-1]]
    if isinstance(value, int):
        parent[path[-1]] = value - 1 if value == 6 or (value > 1 and chance.random() < 0.5) else value + 1
    elif re.fullmatch(r"[0-9a-f]+", value):
        place = chance.randrange(len(value))
        parent[path[-1]] = value[:place] + ("0" if value[place] != "0" else "1") + value[place + 1 :]
    elif re.fullmatch(r"[0-9]+\.[0-9]{2}", value):
        parent[path[-1]] = value[:-1] + ("0" if value[-1] != "0" else "1")
    else:
        parent[path[-1]] = value + "x"
    return result


def vector_records() -> Iterator[tuple[tuple[str, str, dict[str, str]], bool]]:
    """The known answers of seeds-and-peers.json that are records of a system, and whether each agrees."""
    vectors = json.loads((VECTORS / "seeds-and-peers.json").read_text(encoding="utf-8"))["vectors"]
    for vector in vectors:
        given, expected = vector["input"], vector["expected"]
        for name, record, options, ok in _as_records(vector["id"], given, expected):
            yield (name, json.dumps(record), options), ok


def _as_records(
    name: str, given: dict[str, Any], expected: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any], dict[str, str], bool]]:
    if name.startswith("cube-"):
        rolls = given.get("claimed_rolls", expected.get("rolls"))
        stated = {"fingerprint": given.get("fingerprint", expected.get("fingerprint"))}
        record = {"seed": given["seed"], "rolls": rolls} | {key: value for key, value in stated.items() if value}
        yield "cube", record, {}, expected.get("valid", True)
    elif name.startswith("keccak-") and len(given["word_hex"]) == 64:
        after = {"word": expected["seed_out_hex"], "index": expected["next_idx"]}
        yield "casino-sdk", {"word": given["word_hex"], "rolls": [expected["faces"]], "after": after}, {}, True
    elif name.startswith("mono-raw"):
        record = {
            "server_seed": given["server_seed_hex"],
            "client_seed": given["client_seed"],
            "match_id": given["match_id"],
        }
        yield "commit-reveal", record | {"first": given["k"], "rolls": [expected["dice"]]}, {"count-from": "0"}, True
    elif name == "peer-freebitco":
        record = {field: given[field] for field in ("server_seed", "client_seed")}
        record |= {"server_seed_hash": expected["server_seed_hash"]}
        yield "freebitco", record | {"rolls": [{"nonce": given["nonce"], "roll": expected["roll"]}]}, {}, True
    elif name.startswith("peer-skinclub"):
        record = {field: given[field] for field in ("server_seed", "client_seed", "secret_salt")}
        record |= {"public_hash": expected["public_hash"]}
        yield "skinclub", record | {"rolls": [{"nonce": given["nonce"], "roll": expected["roll"]}]}, {}, True
        wrong = [{"nonce": given["nonce"], "roll": expected["wrong_roll_if_read_as_double"]}]
        yield "skinclub", record | {"rolls": wrong}, {}, False
    elif name.startswith("peer-stake"):
        bets = [{"nonce": given["nonce"], "result": expected["roll"]}]
        yield (
            "stake",
            {"server_seed": given["server_seed"], "client_seed": given["client_seed"], "bets": bets},
            {},
            True,
        )
    elif name.startswith("peer-bustabit"):
        games = [{"hash": game["hash"], "bust": f"{game['bust']:.2f}"} for game in expected["games"]]
        yield "bustabit", {"salt": given["salt"], "games": games}, {"hashing": "bytes"}, True
        yield "bustabit", {"salt": given["salt"], "games": games}, {"hashing": "text"}, False
    elif name == "peer-rfc3797":
        yield "rfc3797", {"key": given["key"], "pool": given["pool"], "selected": expected["selected"]}, {}, True
    elif name.startswith("peer-fairpick"):
        record = {"entries": given["entries"], "seed": given["seed_hex"], "count": given["count"]}
        yield "wallop", record | {"winners": expected["winners"]}, {}, True
    elif name.startswith("peer-wallop-entry") and given["entries"][0]["weight"] < 1000:
        record = {"draw_id": given["draw_id"], "entries": given["entries"], "entry_hash": expected["entry_hash"]}
        yield "wallop", record | {"seed": "00" * 32, "winners": ["aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"]}, {}, False
    elif name == "peer-raffair-draw":
        record = {"seed": given["seed_hex"], "drand_randomness": given["drand_randomness"], "tickets": given["tickets"]}
        record |= {field: expected[field] for field in ("commitment", "ticket_list_hash")}
        yield "raffair", record | {"winners": [expected["winner"]]}, {}, True
    elif name == "peer-blockrand-round":
        record = {field: given[field] for field in ("player_secret", "server_secret", "drand_signature")}
        stated = ("player_hash", "server_hash", "drand_randomness", "final_seed")
        yield "blockrand", record | {field: expected[field] for field in stated}, {}, True
    elif name.startswith("peer-hubx"):
        yield "hubx", given | {"value": expected["value_hex"], "index": expected["index"]}, {}, True
    elif name.startswith("peer-vrs"):
        codes = [expected[f"H^{power}"] for power in (10, 9, 8)]
        yield "one-time-codes", {"codes": codes, "secret": given["secret_utf8"], "power": 8}, {}, True
