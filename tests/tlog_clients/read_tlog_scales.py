"""Reads logs with tlog-scales as published. Standard input and output: as read_aics_tlog.py."""

import base64
import hashlib
import json
import sys

from tlog_scales.backend import make_backend
from tlog_scales.reader import TilesReader
from tlog_scales.signing import Vkey
from tlog_scales.tiles import leaf_hash


def read(url, vkey, old):
    reader, key = TilesReader(make_backend(url)), Vkey.from_string(vkey)
    head = reader.get_checkpoint()
    head.verify(key)
    if head.origin != key.name:
        raise ValueError("checkpoint: another log's")
    if reader.calculate_root_hash() != head.root_hash:
        raise ValueError("root: the tiles do not lead to it")
    entries = [reader.get_entry(index) for index in range(head.size)]
    for index, entry in enumerate(entries):
        reader.get_inclusion_proof(index, head.size).check(leaf_hash(entry), head.root_hash)
    if old is not None:
        if old["size"] > head.size:
            raise ValueError("consistency: the log is shorter than it was")
        proof = reader.get_consistency_proof(old["size"], head.size)
        proof.check(base64.b64decode(old["root"]), head.root_hash)
    return {
        "size": head.size,
        "root": base64.b64encode(head.root_hash).decode(),
        "entries": [hashlib.sha256(entry).hexdigest() for entry in entries],
    }


def outcome(job):
    try:
        return read(**job)
    except Exception as error:  # noqa: BLE001 - whatever the client raises is its refusal
        return {"refused": f"{type(error).__name__}: {error}"}


print(json.dumps([outcome(job) for job in json.load(sys.stdin)]))
