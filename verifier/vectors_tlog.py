"""Run one case of the transparency-log known answers against this package's formats.

A case is `{"id", "input": {...}, "expect": {...}}`. An `expect` of `{"ok": false}` is a refusal, any other one names
fields of the result. A section or a shape that is not known here raises KeyError: never a pass by ignorance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from verifier import merkle, tiles, tlog_proof, vectors_witness
from verifier.encoding import encode_base64, parse_base64, parse_hex
from verifier.errors import Code, FormatError, VerifierError
from verifier.note import (
    COSIGNATURE_V1,
    KEY_ID_BYTES,
    ML_DSA_44,
    Checkpoint,
    Note,
    SigningKey,
    VerifiedNote,
    VerifierKey,
    cosignature_message,
    key_id,
    open_note,
    parse_cosignature,
    subtree_message,
)
from verifier.policy import Policy
from verifier.tlog_proof import TlogProof

Case = Mapping[str, Any]
Result = dict[str, Any]

_COMMENTS: Final = frozenset({"why", "note"})
_MALFORMED: Final = "malformed"
_UNKNOWN: Final = "no known signature"
_INVALID: Final = "invalid signature for known key"
_REASONS: Final = frozenset({_MALFORMED, _UNKNOWN, _INVALID})
_ML_DSA_COSIGNATURE_BYTES: Final = 8 + 2420


def run_section(name: str, case: Case) -> str | None:
    """Run one case of section `name`: None when it passed, else why it failed.

    Raises KeyError when the section, or the shape of the case, is not understood.
    """
    if name == "witness_add_checkpoint":
        return vectors_witness.run_sequence(case)
    section = _SECTIONS[name]
    given, expect = case["input"], case["expect"]
    try:
        got = section(given)
    except VerifierError as error:
        got = {"ok": False, "error": _reason(error)}
        if expect.get("ok") is not False:
            return f"refused: {error}"
    return _compare(expect, {"ok": True, **got})


def _compare(expect: Case, got: Result) -> str | None:
    for field, wanted in expect.items():
        if field in _COMMENTS or (field == "error" and wanted not in _REASONS):
            continue
        if not _matches(field, wanted, got[field]):
            return f"{field}: expected {_short(wanted)}, got {_short(got[field])}"
    return None


def _matches(field: str, wanted: Any, got: Any) -> bool:
    if field == "prefix_hex":
        return bool(got.startswith(wanted))
    if field.startswith("signed_message_"):
        return all(got[name] == message for name, message in wanted.items())
    return bool(got == wanted)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."


def _reason(error: VerifierError) -> str:
    if isinstance(error, FormatError):
        return _MALFORMED
    if error.message.startswith("no signature"):
        return _UNKNOWN
    return _INVALID


def _hashes(encoded: Sequence[str]) -> list[bytes]:
    return [parse_hex(item) for item in encoded]


def _generated(given: Case, count: int) -> list[bytes]:
    start = given.get("from", 0)
    return [(given["leaf_format"] % i).encode() for i in range(start, start + count)]


def _leaf_hashes(given: Case, count: int) -> list[bytes]:
    return [merkle.leaf_hash(leaf) for leaf in _generated(given, count)]


def _note_text(given: Case) -> str | bytes:
    if "note_base64" in given:
        return parse_base64(given["note_base64"])
    text: str = given["note"]
    return text


def _keys(vkeys: Sequence[str]) -> list[VerifierKey]:
    return [VerifierKey.parse(vkey) for vkey in vkeys]


def _vkey_parse(given: Case) -> Result:
    key = VerifierKey.parse(given["vkey"])
    return {
        "name": key.name,
        "key_id_hex": key.key_id.hex(),
        "type": key.type,
        "public_key_hex": key.public_key.hex(),
        "vkey": str(key),
    }


def _key_id(given: Case) -> Result:
    return {"key_id_hex": key_id(given["name"], given["type"], parse_hex(given["public_key_hex"])).hex()}


def _note_sign(given: Case) -> Result:
    key = SigningKey(parse_hex(given["seed_hex"]), given["name"])
    if "skey" in given and SigningKey.parse(given["skey"]).vkey != key.vkey:
        raise FormatError(Code.VKEY, "the private key is another one")
    line = key.sign(given["text"])
    return {"vkey": str(key.vkey), "note": f"{given['text']}\n{line}", "signature_line": line}


def _opened(given: Case) -> tuple[Note, VerifiedNote]:
    note = Note.parse(_note_text(given))
    return note, open_note(note, _keys(given["vkeys"]))


def _note_open(given: Case) -> Result:
    _, opened = _opened(given)
    return {"text": opened.text, "verified": [[v.key.name, v.key.key_id.hex()] for v in opened.verified]}


def _cosignature_verify(given: Case) -> Result:
    _, opened = _opened(given)
    checkpoint = Checkpoint.parse(opened.text)
    messages = {}
    for verified in opened.verified:
        key, timestamp = verified.key, verified.timestamp
        if timestamp is None:
            messages[key.key_id.hex()] = opened.text.encode()
        elif key.type == COSIGNATURE_V1:
            messages[key.key_id.hex()] = cosignature_message(timestamp, opened.text)
        else:
            root, size = checkpoint.root, checkpoint.size
            messages[key.key_id.hex()] = subtree_message(key.name, timestamp, checkpoint.origin, 0, size, root)
    return {
        "text": opened.text,
        "verified": [
            {"name": v.key.name, "key_id_hex": v.key.key_id.hex(), "timestamp": v.timestamp} for v in opened.verified
        ],
        "signed_message_utf8": {name: data.decode("utf-8", "replace") for name, data in messages.items()},
        "signed_message_hex": {name: data.hex() for name, data in messages.items()},
    }


def _cosignature_encode(given: Case) -> Result:
    if "signature_base64" in given:
        data = parse_base64(given["signature_base64"])
        key_type = ML_DSA_44 if len(data) == KEY_ID_BYTES + _ML_DSA_COSIGNATURE_BYTES else COSIGNATURE_V1
        timestamp, _ = parse_cosignature(data[KEY_ID_BYTES:], key_type)
        return {"key_id_hex": data[:KEY_ID_BYTES].hex(), "timestamp": timestamp, "length": len(data)}
    if "checkpoint_body" in given:
        message = cosignature_message(given["timestamp"], given["checkpoint_body"])
        return {"message": message.decode(), "message_hex": message.hex()}
    root = parse_hex(given["hash_hex"])
    message = subtree_message(
        given["cosigner_name"], given["timestamp"], given["log_origin"], given["start"], given["end"], root
    )
    return {"message_hex": message.hex()}


def _checkpoint_parse(given: Case) -> Result:
    checkpoint = Checkpoint.parse(given["text"])
    return {
        "origin": checkpoint.origin,
        "size": checkpoint.size,
        "root_hex": checkpoint.root.hex(),
        "extensions": list(checkpoint.extensions),
        "text": checkpoint.encode(),
    }


def _merkle_hash(given: Case) -> Result:
    match given["op"]:
        case "leaf":
            computed = merkle.leaf_hash(parse_hex(given["data_hex"]))
        case "node":
            computed = merkle.node_hash(parse_hex(given["left_hex"]), parse_hex(given["right_hex"]))
        case "root":
            computed = merkle.tree_root([merkle.leaf_hash(parse_hex(leaf)) for leaf in given["leaves_hex"]])
        case "root_of_generated":
            computed = merkle.tree_root(_leaf_hashes(given, given["count"]))
        case "empty":
            computed = merkle.EMPTY_ROOT
        case other:
            raise KeyError(other)
    return {"hash_hex": computed.hex()}


def _consistency_verify(given: Case) -> Result:
    roots = parse_hex(given["root1_hex"]), parse_hex(given["root2_hex"])
    merkle.verify_consistency(given["size1"], given["size2"], _hashes(given["proof_hex"]), *roots)
    return {}


def _inclusion_verify(given: Case) -> Result:
    leaf, root = parse_hex(given["leaf_hash_hex"]), parse_hex(given["root_hex"])
    merkle.verify_inclusion(leaf, given["index"], given["size"], _hashes(given["proof_hex"]), root)
    return {}


def _inclusion_prove(given: Case) -> Result:
    leaves = _leaf_hashes(given, given["size"])
    proof, root = merkle.prove_inclusion(leaves, given["index"]), merkle.tree_root(leaves)
    merkle.verify_inclusion(leaves[given["index"]], given["index"], given["size"], proof, root)
    return {"proof_hex": [item.hex() for item in proof], "root_hex": root.hex()}


def _consistency_prove(given: Case) -> Result:
    old_size, new_size = given["old_size"], given["new_size"]
    leaves = _leaf_hashes(given, new_size)
    proof = merkle.prove_consistency(leaves, old_size)
    old_root, new_root = merkle.tree_root(leaves[:old_size]), merkle.tree_root(leaves)
    merkle.verify_consistency(old_size, new_size, proof, old_root, new_root)
    return {
        "proof_hex": [item.hex() for item in proof],
        "old_root_hex": old_root.hex(),
        "new_root_hex": new_root.hex(),
    }


def _tile_path(given: Case) -> Result:
    if "entry_index" in given:
        return {"path": tiles.bundle_of(given["entry_index"], given["tree_size"]).path}
    level, index, width = given["level"], given["index"], given["width"]
    return {"path": tiles.entry_path(index, width) if level == "entries" else tiles.tile_path(level, index, width)}


def _tile_path_parse(given: Case) -> Result:
    tile = tiles.parse_tile_path(f"tile/{given['level']}/{given['index_path']}")
    level = "entries" if tile.level == tiles.ENTRIES else tile.level
    return {"level": level, "index": tile.index, "width": tile.width}


def _tile_layout(given: Case) -> Result:
    layout = tiles.tile_layout(given["tree_size"])
    return {"levels": [{"level": x.level, "full": x.full, "partial_width": x.partial_width} for x in layout]}


def _tile_bytes(given: Case) -> Result:
    if "leaf_format" in given:
        entries = _generated(given, given["count"])
    else:
        entries = [entry.encode() for entry in given["entries_utf8"]]
    files = _files(entries)
    hashes = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
    lines = "".join(f"{path} {hashes[path]}\n" for path in sorted(hashes))
    return {
        "sha256_by_path": hashes,
        "files_hex": {path: data.hex() for path, data in files.items()},
        "file_count": len(files),
        "digest_hex": hashlib.sha256(lines.encode()).hexdigest(),
        "root_hex": merkle.tree_root([merkle.leaf_hash(entry) for entry in entries]).hex(),
    }


def _files(entries: Sequence[bytes]) -> dict[str, bytes]:
    """Give every tile and bundle of the tree of these entries, partial ones only at its right edge."""
    files = {}
    row = [merkle.leaf_hash(entry) for entry in entries]
    for level in tiles.tile_layout(len(entries)):
        widths = [tiles.TILE_WIDTH] * level.full + [level.partial_width] * (level.partial_width > 0)
        for index, width in enumerate(widths):
            start = index * tiles.TILE_WIDTH
            files[tiles.tile_path(level.level, index, width)] = b"".join(row[start : start + width])
            if level.level == 0:
                files[tiles.entry_path(index, width)] = tiles.encode_bundle(entries[start : start + width])
        row = [merkle.tree_root(row[i * tiles.TILE_WIDTH : (i + 1) * tiles.TILE_WIDTH]) for i in range(level.full)]
    return files


def _entry_bundle(given: Case) -> Result:
    if "bundle_hex" in given:
        data = parse_hex(given["bundle_hex"])
        entries = tiles.parse_bundle(data)
    else:
        entries = [parse_hex(entry) for entry in given["entries_hex"]]
        data = tiles.encode_bundle(entries)
        if tiles.parse_bundle(data) != entries:
            raise FormatError(Code.TILE, "the bundle does not parse to its entries")
    return {
        "entries_hex": [entry.hex() for entry in entries],
        "bundle_hex": data.hex(),
        "sha256_hex": hashlib.sha256(data).hexdigest(),
        "prefix_hex": data.hex(),
    }


def _tlog_proof_encode(given: Case) -> Result:
    hashes = tuple(_hashes(given["hashes_hex"]))
    encoded = given["extra_base64"]
    extra = None if encoded is None else parse_base64(encoded)
    proof = TlogProof(given["index"], hashes, given["checkpoint"], extra)
    if TlogProof.parse(proof.encode()) != proof:
        raise FormatError(Code.TLOG_PROOF, "the proof does not parse to what it was made of")
    return {"proof": proof.encode()}


def _tlog_proof_parse(given: Case) -> Result:
    proof = TlogProof.parse(given["proof"])
    return {
        "index": proof.index,
        "hashes_hex": [item.hex() for item in proof.hashes],
        "checkpoint": proof.checkpoint,
        "extra_base64": None if proof.extra is None else encode_base64(proof.extra),
        "extra_hex": None if proof.extra is None else proof.extra.hex(),
    }


def _tlog_proof_verify(given: Case) -> Result:
    logs = [f"log {vkey}\n" for vkey in given["log_vkeys"]]
    names = [f"W{number}" for number in range(len(given["witness_vkeys"]))]
    witnesses = [f"witness {name} {vkey}\n" for name, vkey in zip(names, given["witness_vkeys"], strict=True)]
    quorum = "quorum none\n"
    if given["quorum"]:
        quorum = f"group Q {given['quorum']} {' '.join(names)}\nquorum Q\n"
    policy = Policy.parse("".join([*logs, *witnesses, quorum]))
    leaf = merkle.leaf_hash(parse_hex(given["leaf_data_hex"]))
    checkpoint = tlog_proof.verify(TlogProof.parse(given["proof"]), leaf, policy)
    return {"origin": checkpoint.origin, "size": checkpoint.size, "root_hex": checkpoint.root.hex()}


def _witness_request_encode(given: Case) -> Result:
    proof = _hashes(given["proof_hex"])
    return {"body": tlog_proof.add_checkpoint_request(given["old_size"], proof, given["checkpoint"])}


def _origin_hash(given: Case) -> Result:
    return {"sha256_hex": hashlib.sha256(given["origin"].encode()).hexdigest()}


def _policy_quorum(given: Case) -> Result:
    return {"satisfied": Policy.parse(given["policy"]).satisfied(given["cosigned_by"])}


def _policy_parse(given: Case) -> Result:
    policy = Policy.parse(given["policy"])
    return {
        "logs": [str(key) for key in policy.logs],
        "witnesses": {name: str(key) for name, key in policy.witnesses.items()},
        "groups": list(policy.groups),
        "quorum": policy.quorum,
    }


_SECTIONS: Final[Mapping[str, Callable[[Case], Result]]] = {
    "vkey_parse": _vkey_parse,
    "key_id": _key_id,
    "note_sign_ed25519": _note_sign,
    "note_open": _note_open,
    "cosignature_verify": _cosignature_verify,
    "cosignature_encode": _cosignature_encode,
    "checkpoint_parse": _checkpoint_parse,
    "merkle_hash": _merkle_hash,
    "consistency_verify": _consistency_verify,
    "inclusion_verify": _inclusion_verify,
    "inclusion_prove": _inclusion_prove,
    "consistency_prove": _consistency_prove,
    "tile_path": _tile_path,
    "tile_path_parse": _tile_path_parse,
    "tile_layout": _tile_layout,
    "tile_bytes": _tile_bytes,
    "entry_bundle": _entry_bundle,
    "tlog_proof_encode": _tlog_proof_encode,
    "tlog_proof_parse": _tlog_proof_parse,
    "tlog_proof_verify": _tlog_proof_verify,
    "witness_request_encode": _witness_request_encode,
    "witness_status": vectors_witness.status,
    "origin_hash": _origin_hash,
    "policy_quorum": _policy_quorum,
    "policy_parse": _policy_parse,
}
