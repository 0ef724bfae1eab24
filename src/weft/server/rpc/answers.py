"""Answers as JSON. The jobs of a large answer are described and encoded in slices, between other work of the loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from weft.server.process.slices import Steps, in_slices
from weft.views.answers.base import View, encode

V = TypeVar("V", bound=View)
MAX_ROWS_AT_ONCE: Final = 100
_NO_JOBS: Final = '"jobs": []'


class LaterRows(list[V]):
    """The jobs of an answer that are described when it is encoded. Until then the list is empty."""

    def __init__(self, rows: Iterator[V]) -> None:
        super().__init__()
        self.rows = rows


def rows_of(rows: Iterable[V], count: int) -> Sequence[V]:
    """Return this number of rows, or all of them later if there are many. A later row may be newer than its answer."""
    return list(rows) if count <= MAX_ROWS_AT_ONCE else LaterRows(iter(rows))


async def to_json(answer: View) -> str:
    jobs = getattr(answer, "jobs", None)
    return await in_slices(_steps(answer, jobs)) if isinstance(jobs, LaterRows) else encode(answer)


def _steps(answer: View, jobs: LaterRows[V]) -> Steps[str]:
    texts = []
    for row in jobs.rows:
        texts.append(encode(row))
        yield
    # quotes inside of texts are escaped, and GPUs, which have jobs too, come first
    head, _, tail = encode(answer).rpartition(_NO_JOBS)
    return f"{head}{_NO_JOBS[:-1]}{', '.join(texts)}]{tail}"
