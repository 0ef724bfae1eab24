"""Usage: GPU time by user, group, team and GPU model, and how well jobs used what they held.

The GPU seconds of a job are those of `history.metrics.collector`, which divides GPUs among jobs that share them. Its
runs give the part that falls into the window, and on which GPU models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from weft.history.metrics.records import JobRecord
from weft.model import Exited, Fact, JobId, JobSnapshot, NodeId, NodeJoined, NodeLost, Seconds, Slots, Start, Use, Used
from weft.model.status import ACTIVE
from weft.model.team import departments

UNKNOWN: Final = ""
"""The model of GPUs that name none."""


class Span(NamedTuple):
    """GPUs of one model that a run held."""

    begin: Seconds
    end: Seconds
    model: str
    gpus: int


class UsageMeter:
    """Follows the facts of a journal: which GPUs runs held and when, and what they used."""

    def __init__(self) -> None:
        self._models: dict[NodeId, tuple[str, ...]] = {}
        self._open: dict[JobId, tuple[int, Seconds, dict[NodeId, tuple[int, ...]]]] = {}
        self.spans: dict[JobId, list[Span]] = {}
        self.uses: dict[JobId, Use] = {}

    def follow(self, facts: Iterable[Fact]) -> Iterator[Fact]:
        """Yield the same facts, and record them."""
        for fact in facts:
            match fact:
                case NodeJoined():
                    self._models[fact.node.id] = tuple(gpu.model for gpu in fact.node.gpus)
                case Start():
                    self._close(fact.job, fact.at)
                    self._open[fact.job] = (fact.run, fact.at, dict(fact.slots))
                case Exited():
                    self._close(fact.job, fact.at - fact.late_s, fact.run)
                    if fact.cpu_s or fact.rss_mb:
                        self._add(fact.job, Use(cpu_s=fact.cpu_s, rss_mb=fact.rss_mb))
                case Used():
                    self._add(fact.job, fact.use)
                case NodeLost():
                    for job, (_, begin, slots) in self._open.items():
                        if fact.node in slots:
                            self._note(job, begin, fact.at, [(fact.node, slots.pop(fact.node))])
                case JobSnapshot():
                    self._restore(fact)
            yield fact

    def finish(self, now: Seconds) -> None:
        """Count runs that have not ended up to now."""
        for job in list(self._open):
            self._close(job, now)

    def _add(self, job: JobId, use: Use) -> None:
        self.uses[job] = self.uses[job].plus(use) if job in self.uses else use

    def _close(self, job: JobId, at: Seconds, run: int | None = None) -> None:
        if job in self._open and run in (None, self._open[job][0]):
            _, begin, slots = self._open.pop(job)
            self._note(job, begin, at, slots.items())

    def _note(self, job: JobId, begin: Seconds, end: Seconds, slots: Iterable[tuple[NodeId, Sequence[int]]]) -> None:
        """Record what a run held; one without GPUs has a span of none."""
        counts: dict[str, int] = {}
        for node, gpus in slots:
            if not gpus:
                counts.setdefault(UNKNOWN, 0)
            models = self._models.get(node, ())
            for gpu in gpus:
                model = models[gpu] if gpu < len(models) else UNKNOWN
                counts[model] = counts.get(model, 0) + 1
        self.spans.setdefault(job, []).extend(Span(begin, end, model, gpus) for model, gpus in counts.items())

    def _restore(self, fact: JobSnapshot) -> None:
        """Take a job of a snapshot: what it held before counts as one run on the GPUs of its last one."""
        job = fact.job.id
        active = fact.status in ACTIVE
        before = fact.started_at if active else fact.ended_at if fact.ended_at is not None else fact.at
        if fact.attained_s > 0:
            self._note(job, before - fact.attained_s, before, _slots(fact.placed))
        if active:
            self._open[job] = (fact.run, fact.started_at, dict(fact.slots))
        if fact.use is not None:
            self._add(job, fact.use)


def _slots(slots: Slots) -> list[tuple[NodeId, tuple[int, ...]]]:
    return list(slots)


@dataclass(frozen=True, slots=True)
class JobUsage:
    """The GPU time of one job in the window, and how well the job used it. None: unknown."""

    id: JobId
    user: str
    group: str
    gpus: int
    status: str
    gpu_s: Mapping[str, float]
    """By GPU model."""
    run_s: float
    """Seconds for which it held GPUs, over all its life."""
    use: Use | None
    team: str = ""

    @property
    def total_gpu_s(self) -> float:
        return sum(self.gpu_s.values())

    @property
    def utilisation(self) -> float | None:
        """The mean utilisation of its GPUs, from 0 to 1."""
        return None if self.use is None or not self.use.sampled_s else self.use.busy_s / self.use.sampled_s

    @property
    def energy_j(self) -> float | None:
        return None if self.use is None or not self.use.metered_s else self.use.energy_j


def job_usages(
    records: Iterable[JobRecord], meter: UsageMeter, since: Seconds = float("-inf"), until: Seconds = float("inf")
) -> list[JobUsage]:
    """Return the usage of each job that held GPUs in the window, or that held none and ended in it."""
    found = []
    for record in records:
        spans = meter.spans.get(record.id, ())
        held = sum((span.end - span.begin) * span.gpus for span in spans)
        run_s = sum({(span.begin, span.end): span.end - span.begin for span in spans}.values())
        scale = record.gpu_seconds / held if held > 0 and record.gpu_seconds > 0 else 1.0
        by_model: dict[str, float] = {}
        for span in spans:
            part_s = min(span.end, until) - max(span.begin, since)
            if part_s > 0 and span.gpus:
                by_model[span.model] = by_model.get(span.model, 0.0) + part_s * span.gpus * scale
        if by_model or any(span.end > since and span.begin < until for span in spans if not span.gpus):
            use = meter.uses.get(record.id)
            who = record.id, record.user, record.group
            found.append(JobUsage(*who, record.gpus, record.status, by_model, run_s, use, record.team))
    return found


@dataclass(slots=True)
class UsageRow:
    """The usage of one user, group, team or GPU model."""

    name: str
    jobs: int = 0
    gpu_s: float = 0.0
    sampled_gpu_s: float = 0.0
    """GPU seconds for which the utilisation is known."""
    busy_gpu_s: float = 0.0
    energy_j: float = 0.0
    metered: bool = False

    @property
    def utilisation(self) -> float | None:
        return self.busy_gpu_s / self.sampled_gpu_s if self.sampled_gpu_s else None

    def add(self, job: JobUsage, gpu_s: float) -> None:
        """Add the part of a job that `gpu_s` is."""
        self.jobs += 1
        self.gpu_s += gpu_s
        if (rate := job.utilisation) is not None:
            self.sampled_gpu_s += gpu_s
            self.busy_gpu_s += rate * gpu_s
        if (energy_j := job.energy_j) is not None:
            self.metered = True
            self.energy_j += energy_j * (gpu_s / job.total_gpu_s if job.total_gpu_s else 1.0)


NAMES: Final[Mapping[str, Callable[[JobUsage], Mapping[str, float]]]] = {
    "user": lambda job: {job.user: job.total_gpu_s},
    "group": lambda job: {job.group: job.total_gpu_s},
    "team": lambda job: dict.fromkeys(departments(job.team) or [""], job.total_gpu_s),
    "model": lambda job: job.gpu_s,
}
"""The kinds of rows, and the GPU seconds of a job in each row. A department has those of its teams."""


def usage_by(jobs: Iterable[JobUsage], by: str) -> list[UsageRow]:
    """Return one row for each user, group, team or model, the largest first."""
    rows: dict[str, UsageRow] = {}
    for job in jobs:
        for name, gpu_s in NAMES[by](job).items():
            rows.setdefault(name, UsageRow(name)).add(job, gpu_s)
    return sorted(rows.values(), key=lambda row: (-row.gpu_s, row.name))
