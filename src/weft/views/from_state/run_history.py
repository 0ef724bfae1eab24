"""The last runs of each job, from facts: for `weft show --json` and for screens. Snapshots do not contain them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from weft.model import Decision, Event, Exited, Fact, JobId, Purged, Seconds, Slots, Start
from weft.model.slots import format_slots, nodes_of
from weft.views.answers.jobs import RunView
from weft.views.from_state.gpu_numbers import GpuNumbers
from weft.views.from_state.timestamps import iso

MAX_RUNS: Final = 16
"""Runs of a job that are remembered."""
MAX_JOBS: Final = 5_000
"""Jobs whose runs are remembered: those that started last."""


class _Run(NamedTuple):
    run: int
    started_at: Seconds
    slots: Slots
    exit: Exited | None = None


class RunHistory:
    def __init__(self) -> None:
        self._runs: dict[JobId, deque[_Run]] = {}

    def record_batch(self, events: Sequence[Event], decisions: Sequence[Decision]) -> None:
        self.record((*events, *decisions))

    def record(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            self._record(fact)

    def record_all(self, facts: Iterable[Fact]) -> Iterator[Fact]:
        """Yield the same facts, and record them."""
        for fact in facts:
            self._record(fact)
            yield fact

    def _record(self, fact: Fact) -> None:
        kind = type(fact)
        if kind is Start:
            self._start(fact)  # type: ignore[arg-type]
        elif kind is Exited:
            self._end(fact)  # type: ignore[arg-type]
        elif kind is Purged:
            for job in fact.jobs:  # type: ignore[union-attr]
                self._runs.pop(job, None)

    def _start(self, fact: Start) -> None:
        runs = self._runs.pop(fact.job, None) or deque(maxlen=MAX_RUNS)
        if not runs or runs[-1].run < fact.run:
            runs.append(_Run(fact.run, fact.at, fact.slots))
        self._runs[fact.job] = runs  # now the last in the order
        if len(self._runs) > MAX_JOBS:
            del self._runs[next(iter(self._runs))]

    def _end(self, fact: Exited) -> None:
        runs = self._runs.get(fact.job)
        if runs and runs[-1].run == fact.run and runs[-1].exit is None:
            runs[-1] = runs[-1]._replace(exit=fact)

    def of(self, job: JobId, numbers: GpuNumbers) -> list[RunView] | None:
        """Return the last runs of a job, in order; None: none is known."""
        return [_view(run, numbers) for run in self._runs.get(job, ())] or None


def _view(run: _Run, numbers: GpuNumbers) -> RunView:
    end = run.exit
    ended = end.at - end.late_s if end else None
    return RunView(
        run=run.run, started=run.started_at, ended=ended,
        place=format_slots(numbers.renumbered(run.slots)), nodes=nodes_of(run.slots),
        outcome=end.how if end else "", code=end.code if end else None, why=end.why if end else "",
        started_at=iso(run.started_at), ended_at=iso(ended),
    )  # fmt: skip
