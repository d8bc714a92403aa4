"""Both verifiers on the same documents: the TypeScript one bundled and run by Node.js, in one process for many."""

from __future__ import annotations

import atexit
import base64
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests import builder, node_support
from tests.outside_tools import need_node
from verifier import drand, receipts
from verifier.bls.verify import best_backend
from verifier.check import Trust, check
from verifier.drand import ChainInfo, Round
from verifier.errors import FormatError, VerifierError
from verifier.fetch import pinned_chains
from verifier.policy import Policy

VKEY = str(builder.LOG_KEY.vkey)
CHAINS = {chain.hash: chain for chain in pinned_chains().values()}
OPTIONS = {"logKeys": [VKEY], "chains": list(pinned_chains()), "policy": builder.POLICY}
TRUST = Trust(builder.LOG_KEY.vkey, CHAINS, policy=Policy.parse(builder.POLICY))


@cache
def workspace() -> Path:
    """verifier/web with its dependencies, once for all tests that run it."""
    need_node()
    folder = Path(tempfile.mkdtemp(prefix="web-verifier-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return node_support.workspace(folder)


@cache
def program() -> Path:
    """The Node.js command."""
    return node_support.bundle(workspace(), "src/node.ts")


def node(*arguments: object, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [need_node(), program(), *map(str, arguments)]
    return subprocess.run(command, input=data, capture_output=True, timeout=240, check=False)


class Bulk:
    """Questions to one process of Node.js, which works while the Python does. `answers` are in their order."""

    def __init__(self, questions: Iterable[Mapping[str, Any]]) -> None:
        self._input = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._input.writelines(f"{json.dumps(question)}\n" for question in questions)
        self._input.seek(0)
        command = [need_node(), program(), "bulk"]
        self._process = subprocess.Popen(command, stdin=self._input, stdout=self._output, stderr=subprocess.PIPE)

    def answers(self) -> list[Any]:
        with self._input, self._output:
            _, errors = self._process.communicate(timeout=300)
            assert self._process.returncode == 0, errors.decode()
            self._output.seek(0)
            return [json.loads(line) for line in self._output]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def checked(documents: Iterable[bytes], options: Mapping[str, Any] = OPTIONS) -> Bulk:
    return Bulk({"document": encoded(document), "options": options} for document in documents)


@cache
def _round(chain: ChainInfo, stated: Round) -> tuple[Any, VerifierError | None]:
    try:
        return drand.verify_round(chain, stated, best_backend()), None
    except VerifierError as error:
        return None, error


def verify_round(chain: ChainInfo, stated: Round) -> Any:
    verified, error = _round(chain, stated)
    if error is not None:
        raise error
    return verified


def python(document: bytes, trust: Trust = TRUST) -> dict[str, Any]:
    """The Python's verdict as its command prints it."""
    try:
        verdict = check(document, trust, verify_round)
    except FormatError as error:
        return {"exit": 3, "code": error.code}
    plain: dict[str, Any] = json.loads(json.dumps(verdict.as_dict()))
    return plain


def python_receipt(receipt: bytes, transcript: bytes) -> dict[str, Any]:
    try:
        plain: dict[str, Any] = json.loads(
            json.dumps(receipts.compare(receipt, transcript, builder.LOG_KEY.vkey).as_dict())
        )
    except FormatError as error:
        return {"exit": 3, "code": error.code}
    return plain


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any], *, codes: bool = True) -> Iterator[str]:
    """How the verdict of the TypeScript differs: exit, claims, the rules that do not hold, remarks, the session.

    codes: compare too what an unusable document is refused for.
    """
    if ours["exit"] != theirs["exit"]:
        yield f"exit: {ours['exit']}, {theirs['exit']} {theirs.get('message', '')}"
    if 3 in {ours["exit"], theirs["exit"]}:
        if codes and ours.get("code") != theirs.get("code"):
            yield f"code: {ours.get('code')}, {theirs.get('code')} {theirs.get('message', '')}"
        return
    for mine, other in zip(ours["claims"], theirs["claims"], strict=True):
        one, two = ((claim["claim"], claim["state"], broken(claim)) for claim in (mine, other))
        if one != two:
            yield f"{one}, {two}"
    if len(ours["remarks"]) != len(theirs["remarks"]):
        yield f"remarks: {ours['remarks']}, {theirs['remarks']}"
    if (ours["session"] or None) != theirs["session"]:
        yield f"session: {ours['session']}, {theirs['session']}"


def broken(claim: Mapping[str, Any]) -> set[str]:
    return {finding["rule"] for finding in claim["findings"]}


def disagreements(
    cases: Mapping[str, bytes], options: Mapping[str, Any] = OPTIONS, trust: Trust = TRUST, *, codes: bool = True
) -> dict[str, list[str]]:
    """The documents, by their names, on which the two verifiers do not agree, and about what.

    codes: False where a document may be unusable for several reasons, of which each verifier names the first it meets.
    """
    bulk = checked(cases.values(), options)
    ours = [python(document, trust) for document in cases.values()]
    theirs = bulk.answers()
    assert len(theirs) == len(cases) > 0
    found = {name: list(differences(*both, codes=codes)) for name, *both in zip(cases, ours, theirs, strict=True)}
    return {name: said for name, said in found.items() if said}
