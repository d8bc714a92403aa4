"""Feeds a log of its own to witnesses, with aics-tlog and aics-witness as published: its tree, keys, proofs and client.

Standard input: a JSON list of {url, vkey, seed, origin, sizes, branch, common}. Leaves from `common` on are the branch's.
Standard output: for each, in order, the size and time of every cosignature that the client took, and why it stopped.
"""

import json
import sys

from aics_tlog import MerkleTree, parse_note, parse_vkey, vkey_from_ed25519
from aics_tlog.checkpoint import Checkpoint, sign_checkpoint, verify_checkpoint
from aics_tlog.cosign import cosignature_timestamp
from aics_witness.feeder import WitnessClient, merge_cosignatures
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def feed(url, vkey, seed, origin, sizes, branch, common):
    private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))
    key = vkey_from_ed25519(origin, private.public_key())
    tree, taken = MerkleTree(), []
    with WitnessClient(url, vkey, max_attempts=2) as client:
        for size in sizes:
            tree.extend(b"%s%d" % (branch.encode() if n >= common else b"", n) for n in range(len(tree), size))
            note = sign_checkpoint(Checkpoint(origin, size, tree.root(size)), private, origin)
            try:
                line = client.submit(note.serialise(), tree.consistency_proof)
            except Exception as error:  # noqa: BLE001 - whatever the client raises is why it stopped
                return {"taken": taken, "refused": f"{type(error).__name__}: {error}"}
            merged = parse_note(merge_cosignatures(note.serialise(), line))
            head = verify_checkpoint(merged, key, witness_keys=[parse_vkey(vkey)], quorum=1, expected_origin=origin)
            if not head.ok:
                return {"taken": taken, "refused": head.error}
            taken.append([size, cosignature_timestamp(merged.signatures[-1].signature)])
    return {"taken": taken, "refused": None}


print(json.dumps([feed(**job) for job in json.load(sys.stdin)]))
