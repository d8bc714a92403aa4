"""Sessions judged in several processes, in the order in which they are given."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Final

from verifier.audit.sessions import Job, Judged, Known, judge

CHUNK: Final = 32

Judging = Callable[[Iterable[Job]], Iterator[Judged]]
"""Takes all jobs at once; what comes of them may be asked for later."""


@contextmanager
def judges(known: Known, processes: int) -> Iterator[Judging]:
    """So many processes that judge until the end of the context."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=_start, initargs=(known,))
    try:
        yield lambda jobs: _spread(pool, jobs)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_known: Known | None = None


def _start(known: Known) -> None:
    global _known  # noqa: PLW0603 - what a worker process is for
    _known = known


def _judge_many(jobs: Sequence[Job]) -> list[Judged]:
    assert _known is not None
    return [judge(_known, job) for job in jobs]


def _spread(pool: ProcessPoolExecutor, jobs: Iterable[Job]) -> Iterator[Judged]:
    left = iter(jobs)
    futures = []
    while chunk := list(islice(left, CHUNK)):
        futures.append(pool.submit(_judge_many, chunk))
    return (judged for future in futures for judged in future.result())
