"""Run the known answers of a witness (C2SP tlog-witness) against its decision: sequences of requests, and single cases.

A case that is only named, such as `64-proof-lines`, is made here, of a log whose key and leaves are fixed. A name that
is not known raises KeyError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from verifier import merkle, tlog_witness
from verifier.encoding import encode_base64
from verifier.note import Checkpoint, SigningKey, VerifierKey
from verifier.tlog_proof import MAX_HASHES, add_checkpoint_request
from verifier.tlog_witness import Refusal

_LOG: Final = SigningKey(bytes(range(32)), "log.example/vectors")
_COSIGNED: Final = Refusal(200, "")
_LEAVES: Final = [merkle.leaf_hash(b"%d" % number) for number in range(8)]
_SOME_HASH: Final = bytes(31) + b"\x01"


class _Witness:
    """A witness of one log, with its state in memory and nothing signed. answer: (body) -> status, body and type."""

    def __init__(self, key: VerifierKey) -> None:
        self._key = key
        self._size, self._root = 0, merkle.EMPTY_ROOT

    def answer(self, body: bytes) -> Refusal:
        request = tlog_witness.read(body)
        if isinstance(request, Refusal):
            return request
        checkpoint = request.checkpoint
        keys = [self._key] if checkpoint.origin == self._key.name else []
        refusal = tlog_witness.unsigned(request, keys) or tlog_witness.inconsistent(request, self._size, self._root)
        if refusal is not None:
            return refusal
        self._size, self._root = checkpoint.size, checkpoint.root
        return _COSIGNED


def run_sequence(case: Mapping[str, Any]) -> str | None:
    """Run the steps of one case in order: None when each got its answer, else which did not."""
    witness = _Witness(VerifierKey.parse(case["input"]["log_vkey"]))
    for step in case["expect"]["steps"]:
        got = witness.answer(step["request_body"].encode())
        if got.status not in {step["status"], *step.get("also_acceptable", ())}:
            return f"{step['name']}: expected {step['status']}, got {got.status}: {got.body.strip()}"
        if got.body != step.get("response_body", got.body):
            return f"{step['name']}: expected the body {step['response_body']!r}, got {got.body!r}"
        if got.content_type != step.get("content_type", got.content_type):
            return f"{step['name']}: expected the type {step['content_type']}, got {got.content_type}"
    return None


def status(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is answered to the last request of a named case; those before it must be cosigned."""
    *before, last = _CASES[given["case"]]()
    witness = _Witness(_LOG.vkey)
    if any(witness.answer(body) != _COSIGNED for body in before):
        raise KeyError(given["case"])
    return {"status": witness.answer(last).status}


def _signed(size: int, root: bytes | None = None, signer: SigningKey = _LOG) -> str:
    text = Checkpoint(_LOG.name, size, merkle.tree_root(_LEAVES[:size]) if root is None else root).encode()
    return f"{text}\n{signer.sign(text)}"


def _request(old: int, size: int, note: str | None = None) -> bytes:
    proof = merkle.prove_consistency(_LEAVES[:size], old) if 0 < old <= size else []
    return add_checkpoint_request(old, proof, note or _signed(size)).encode()


def _lines(count: int) -> bytes:
    return (encode_base64(_SOME_HASH).encode() + b"\n") * count


_CASES: Final[Mapping[str, Callable[[], list[bytes]]]] = {
    "64-proof-lines": lambda: [_request(0, 1), b"old 1\n" + _lines(MAX_HASHES + 1) + b"\n" + _signed(3).encode()],
    "old-greater-than-size": lambda: [_request(5, 3)],
    "old0-with-proof": lambda: [b"old 0\n" + _lines(1) + b"\n" + _signed(3).encode()],
    "size0-nonempty-root": lambda: [_request(0, 0, _signed(0, _SOME_HASH))],
    "size0-empty-root": lambda: [_request(0, 0)],
    "trusted-key-bad-signature": lambda: [_request(0, 3, _signed(3).replace("\n3\n", "\n4\n", 1))],
    "equal-size-equal-root": lambda: [_request(0, 3), _request(3, 3)],
    "equal-size-different-root": lambda: [_request(0, 3), _request(3, 3, _signed(3, _SOME_HASH))],
}
