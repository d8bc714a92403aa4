"""Files of known answers, for those who implement the protocol elsewhere: recognise, split into cases, run.

A file is recognised by its content. A case PASSES only if everything in it was understood and came out as stated; what
is not known here (another scheme, section, algorithm, field) is NOT UNDERSTOOD and named, never a pass by ignorance.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from verifier import vectors_drand, vectors_peers, vectors_protocol, vectors_scenarios, vectors_tlock, vectors_tlog
from verifier.drand import ChainInfo
from verifier.encoding import MAX_DOCUMENT_BYTES, Json, check_nesting
from verifier.errors import Code, FormatError, VerifierError
from verifier.fetch import pinned_chains

_FEW: Final = 8
_ABOUT: Final = frozenset({"about", "protocol", "count", "meta"})


class Status(StrEnum):
    """What became of a case."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_UNDERSTOOD = "not understood"


@dataclass(frozen=True, slots=True)
class Case:
    """One known answer: its id in the file, which runner it is for, and what the file says (JSON)."""

    id: str
    kind: str
    payload: Any

    @property
    def slow(self) -> bool:
        """Whether it takes pairings, about half a second each."""
        return self.kind in {"round", "negative", "scenario", "protocol round", "tlock"}


@dataclass(frozen=True, slots=True)
class Result:
    """`why` is empty exactly when the case passed."""

    id: str
    status: Status
    why: str = ""

    def as_dict(self) -> dict[str, Json]:
        return {"id": self.id, "status": self.status, "why": self.why}


def read(data: bytes) -> tuple[str, list[Case]]:
    """What kind of file it is, and its cases. Raises FormatError(VECTORS or JSON) for what is no such file."""
    document = _parse(data)
    for kind, (marks, split) in _KINDS.items():
        if marks <= document.keys() and (kind != "drand-negative" or "protocol" not in document):
            try:
                cases = [*split(document), *_unknown_parts(document, kind)]
            except (TypeError, AttributeError, ValueError, KeyError) as error:
                raise FormatError(Code.VECTORS, f"not a file of the kind {kind}: {error!r}") from error
            return kind, cases
    raise FormatError(Code.VECTORS, f"no file of known answers of the kinds {', '.join(_KINDS)}")


def run_all(
    cases: Sequence[Case], jobs: int = 1, progress: Callable[[int, int], None] = lambda *_: None
) -> Generator[Result, None, None]:
    """The results in the order of the cases; the slow ones in `jobs` processes. progress(done, all).

    Closed or interrupted on the way, it waits for the few cases that run at the moment, and leaves no process behind.
    """
    slow = [case for case in cases if case.slow]
    if jobs <= 1 or len(slow) < _FEW:
        for done, case in enumerate(cases, 1):
            yield run(case)
            progress(done, len(cases))
        return
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent)
    try:
        with _deaf_children():
            elsewhere = iter(executor.map(run, slow))
        for done, case in enumerate(cases, 1):
            yield next(elsewhere) if case.slow else run(case)
            progress(done, len(cases))
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes started here leave Ctrl-C and SIGTERM, which a whole group may get, to the one that started them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """In a worker: end when the process that started it is gone, even if it was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run(case: Case) -> Result:
    """Run one case. Whatever a case does that its runner does not expect makes it not understood."""
    try:
        why = _RUNNERS[case.kind](case.payload)
    except KeyError as error:
        return Result(case.id, Status.NOT_UNDERSTOOD, f"{error.args[0] if error.args else '?'}")
    except VerifierError as error:
        return Result(case.id, Status.FAILED, str(error))
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        return Result(case.id, Status.NOT_UNDERSTOOD, f"not of the form that is known here ({error})")
    return Result(case.id, Status.PASSED) if why is None else Result(case.id, Status.FAILED, why)


def _parse(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_DOCUMENT_BYTES:
        raise FormatError(Code.VECTORS, f"a file has at most {MAX_DOCUMENT_BYTES} bytes")
    try:
        text = data.decode("utf-8")
        check_nesting(text)
        document = json.loads(text, object_pairs_hook=_object)
    except ValueError as error:
        raise FormatError(Code.VECTORS, f"not JSON in UTF-8: {error}") from error
    if not isinstance(document, dict):
        raise FormatError(Code.VECTORS, "not a JSON object")
    return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise FormatError(Code.VECTORS, "the same key twice in one object")
    return result


def _unknown_parts(document: Mapping[str, Any], kind: str) -> Iterator[Case]:
    """What stands in a file beside the parts that its kind has; a count that does not fit what is there."""
    known = {"protocol": {"cases", "uniform", "entries"}, "drand-tlock": {"tlock", "other_formats"}}.get(
        kind, set(_KINDS[kind][0])
    )
    if kind != "tlog":
        yield from (Case(name, "unknown", name) for name in document.keys() - known - _ABOUT)
    if "count" in document and document["count"] != len(document["vectors"]):
        yield Case("count", "wrong", f"the file says {document['count']} and holds {len(document['vectors'])}")


# --- one splitter a kind of file -------------------------------------------------------------------------------------


def _split_protocol(document: Mapping[str, Any]) -> Iterator[Case]:
    for case in document["cases"]:
        try:
            parts = list(vectors_protocol.split(case))
        except KeyError as error:
            yield Case(str(case.get("name")), "unknown", error.args[0])
            continue
        for name, part, payload in parts:
            kind = "protocol round" if part == "round" else "protocol"
            yield Case(name, kind, (part, payload))
    uniform = dict(document.get("uniform", {"rows": []}))
    rows = uniform.pop("rows")
    uniform["draw"] = uniform.pop("n", None)
    for row in rows:
        yield Case(f"uniform {row['n']}", "uniform", {**uniform, **row})
    entries = document.get("entries", {})
    for number, text in enumerate(entries.get("accepted", []), 1):
        yield Case(f"accepted entry {number}", "accepted", text)
    for number, text in enumerate(entries.get("refused", []), 1):
        yield Case(f"refused entry {number}", "refused", text)
    yield from (Case(f"entries {name}", "unknown", name) for name in entries.keys() - {"accepted", "refused"})


def _split_scenarios(document: Mapping[str, Any]) -> Iterator[Case]:
    for scenario in document["scenarios"]:
        yield Case(str(scenario.get("name")), "scenario", scenario)


def _split_rounds(document: Mapping[str, Any]) -> Iterator[Case]:
    for record in document["rounds"]:
        where = record.get("beacon_id") or "key " + str(record.get("public_key"))[:16]
        yield Case(f"{where} {record.get('round')}", "round", record)


def _split_chains(document: Mapping[str, Any]) -> Iterator[Case]:
    for chain in document["chains"]:
        yield Case(str(chain.get("name")), "chain", chain)


def _split_negative(document: Mapping[str, Any]) -> Iterator[Case]:
    for case in document["cases"]:
        yield Case(str(case.get("id")), "negative", case)


def _split_tlock(document: Mapping[str, Any]) -> Iterator[Case]:
    for number, case in enumerate(document["tlock"], 1):
        yield Case(f"tlock {number} (round {case.get('round')})", "tlock", case)
    for number, case in enumerate(document.get("other_formats", []), 1):
        yield Case(f"other format {number}", "other format", case)


def _split_peers(document: Mapping[str, Any]) -> Iterator[Case]:
    for case in document["vectors"]:
        yield Case(str(case.get("id")), "peer", case)


def _split_tlog(document: Mapping[str, Any]) -> Iterator[Case]:
    counts = document["meta"].get("counts", {})
    for section, cases in document.items():
        if section == "meta":
            continue
        for case in cases:
            yield Case(str(case.get("id")), "tlog", (section, case))
        if counts.get(section, len(cases)) != len(cases):
            yield Case(f"{section} count", "wrong", f"the file says {counts[section]} and holds {len(cases)}")
    for section in counts.keys() - document.keys():
        yield Case(f"{section} count", "wrong", f"the file says {counts[section]} and holds none")


_KINDS: Final[Mapping[str, tuple[frozenset[str], Callable[[Mapping[str, Any]], Iterator[Case]]]]] = {
    "scenarios": (frozenset({"scenarios"}), _split_scenarios),
    "protocol": (frozenset({"protocol", "cases"}), _split_protocol),
    "drand-rounds": (frozenset({"rounds"}), _split_rounds),
    "drand-chains": (frozenset({"chains"}), _split_chains),
    "drand-tlock": (frozenset({"tlock"}), _split_tlock),
    "drand-negative": (frozenset({"cases"}), _split_negative),
    "seeds-and-peers": (frozenset({"vectors"}), _split_peers),
    "tlog": (frozenset({"meta"}), _split_tlog),
}


# --- one runner a kind of case ---------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _by_hash() -> dict[str, ChainInfo]:
    return {chain.hash.hex(): chain for chain in pinned_chains().values()}


def _only(case: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    unknown = sorted(case.keys() - set(names))
    if unknown:
        raise KeyError(unknown[0])
    return case


def _run_round(case: Any) -> str | None:
    names = ("chain_hash", "beacon_id", "scheme", "round", "signature", "previous_signature", "randomness")
    return vectors_drand.run_round(_only(case, *names, "public_key", "sources"), _by_hash())


def _run_negative(case: Any) -> str | None:
    names = ("id", "chain_hash", "round", "signature", "previous_signature", "scheme_override", "note")
    return vectors_drand.run_negative(_only(case, *names), _by_hash())


def _run_tlock(case: Any) -> str | None:
    names = ("chain_hash", "scheme", "round", "age_file_base64", "signature", "expect", "file_key", "plaintext_base64")
    return vectors_tlock.run_tlock(_only(case, *names, "sources", "why"), _by_hash())


def _run_other_format(case: Any) -> str | None:
    names = ("format", "chain_hash", "round", "ciphertext_hex", "signature", "plaintext_base64", "sources")
    return vectors_tlock.run_other_format(_only(case, *names))


def _run_protocol(case: Any) -> str | None:
    part, stated = case
    return vectors_protocol.run_part(part, stated, _by_hash())


def _run_uniform(case: Any) -> str | None:
    return vectors_protocol.run_uniform(_only(case, "seed", "binding", "recipe", "draw", "n", "first_eight"))


def _run_tlog(case: Any) -> str | None:
    section, stated = case
    return vectors_tlog.run_section(section, _only(stated, "id", "source", "input", "expect", "note"))


def _run_unknown(what: Any) -> str | None:
    raise KeyError(what)


_RUNNERS: Final[Mapping[str, Callable[[Any], str | None]]] = {
    "protocol": _run_protocol,
    "protocol round": _run_protocol,
    "uniform": _run_uniform,
    "accepted": vectors_protocol.run_accepted,
    "refused": vectors_protocol.run_refused,
    "scenario": lambda case: vectors_scenarios.run_scenario(case, pinned_chains()),
    "round": _run_round,
    "chain": lambda case: vectors_drand.run_chain(_only(case, "name", "v1", "v2", "sources", "note")),
    "negative": _run_negative,
    "tlock": _run_tlock,
    "other format": _run_other_format,
    "peer": lambda case: vectors_peers.run_peer(case, _by_hash()),
    "tlog": _run_tlog,
    "unknown": _run_unknown,
    "wrong": str,
}
