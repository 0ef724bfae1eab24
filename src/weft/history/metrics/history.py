"""The history of a journal: the record of its jobs, the jobs themselves, and the work that each of them was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.history.metrics.collector import Collector
from weft.history.metrics.figures import Record
from weft.history.metrics.records import JobRecord
from weft.history.metrics.usage import UsageMeter
from weft.history.metrics.work import JobWork, WorkMeter
from weft.model import Fact, Job, JobId, Seconds
from weft.model.team import departments


@dataclass(frozen=True, slots=True)
class History:
    record: Record
    jobs: Mapping[JobId, Job]
    work: Mapping[JobId, JobWork]
    usage: UsageMeter
    simulated: bool
    """True: times begin at 0; False: they are seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The jobs that count; an empty field selects all."""

    since_s: float | None = None
    """Jobs submitted within this time before the end."""
    user: str = ""
    group: str = ""
    team: str = ""
    """A team, or a department with all its teams."""

    def of(self, record: Record, now: Seconds | None = None) -> Record:
        """Return the record of the selected jobs. `now`: where the time counts back from; None: the record's end."""
        jobs: Sequence[JobRecord] = record.jobs
        if self.since_s is not None:
            first = (_end(record) if now is None else now) - self.since_s
            jobs = [job for job in jobs if job.submit >= first]
        if self.user:
            jobs = [job for job in jobs if job.user == self.user]
        if self.group:
            jobs = [job for job in jobs if job.group == self.group]
        if self.team:
            jobs = [job for job in jobs if self.team in departments(job.team)]
        return record if len(jobs) == len(record.jobs) else replace(record, jobs=jobs)


def read_history(facts: Iterable[Fact], *, since: Seconds | None = None) -> History:
    """Return the history of a journal. `since`: where makespan and utilisation begin; None: at the first submission."""
    meter = WorkMeter()
    collector = Collector(meter.total_s)
    usage = UsageMeter()
    collector.add(meter.follow(usage.follow(facts)))
    usage.finish(collector.now)
    rows = collector.close()
    record = Record(collector.records(), rows, collector.gpu_changes(), collector.now, since)
    jobs = {job.id: job.job for job in collector.jobs.values()}
    return History(record, jobs, meter.jobs, usage, meter.simulated)


def in_trace_time(record: Record, speed: float) -> Record:
    """Return the record of a trace that was played `speed` times as fast, in the seconds of the trace."""
    first = min((job.submit for job in record.jobs), default=0.0)

    def at(time: Seconds) -> Seconds:
        return (time - first) * speed

    jobs = [
        replace(
            job, submit=at(job.submit), first_start=None if job.first_start is None else at(job.first_start),
            end=None if job.end is None else at(job.end), queue_s=job.queue_s * speed,
            gpu_seconds=job.gpu_seconds * speed, solo_s=None if job.solo_s is None else job.solo_s * speed,
        )
        for job in record.jobs
    ]  # fmt: skip
    gpus = [(at(time), count) for time, count in record.gpus]
    return Record(jobs, (), gpus, None if record.until is None else at(record.until))


def _end(record: Record) -> Seconds:
    if record.until is not None:
        return record.until
    return max((job.submit if job.end is None else job.end for job in record.jobs), default=0.0)
