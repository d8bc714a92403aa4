"""Reads logs with aics-tlog as published. Standard input: a JSON list of {url, vkey, old}, old: null or {size, root}.

Standard output: for each, in order, what the client made of it, or why it refused. Only the client's own functions check.
"""

import base64
import hashlib
import json
import sys

from aics_tlog.checkpoint import verify_checkpoint
from aics_tlog.hashing import leaf_hash
from aics_tlog.note import parse_note, parse_vkey
from aics_tlog.remote import HttpTileReader
from aics_tlog.tiles import consistency_proof_from_tiles, inclusion_proof_from_tiles
from aics_tlog.tree import verify_consistency, verify_inclusion
from aics_tlog.verified import VerifiedTileReader, audit_tiles


def read(url, vkey, old):
    reader, key = HttpTileReader(url, proxies={}), parse_vkey(vkey)
    head = verify_checkpoint(parse_note(reader.read_checkpoint()), key, expected_origin=key.name)
    if not head.ok:
        raise ValueError(f"checkpoint: {head.error}")
    audited = audit_tiles(reader, head.size, head.root)
    tree = VerifiedTileReader(reader, head.size, head.root)
    entries = [tree.entry(index) for index in range(head.size)]
    for index, entry in enumerate(entries):
        proof = inclusion_proof_from_tiles(tree, index, head.size)
        if not verify_inclusion(leaf_hash(entry), index, head.size, proof, head.root):
            raise ValueError(f"inclusion of {index}")
    if old is not None:
        if old["size"] > head.size:
            raise ValueError("consistency: the log is shorter than it was")
        proof = consistency_proof_from_tiles(tree, old["size"], head.size)
        if not verify_consistency(old["size"], head.size, base64.b64decode(old["root"]), head.root, proof):
            raise ValueError("consistency: not the log that it was")
    return {
        "size": head.size,
        "root": base64.b64encode(head.root).decode(),
        "entries": [hashlib.sha256(entry).hexdigest() for entry in entries],
        "resources": audited.tiles + audited.bundles,
    }


def outcome(job):
    try:
        return read(**job)
    except Exception as error:  # noqa: BLE001 - whatever the client raises is its refusal
        return {"refused": f"{type(error).__name__}: {error}"}


print(json.dumps([outcome(job) for job in json.load(sys.stdin)]))
