"""Collector: follows a state fact by fact, in constant time each, and keeps what the figures need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from weft.history.metrics.gpu_time import GpuTime, Holder
from weft.history.metrics.records import ClusterRow, JobRecord, Status, gpu_changes
from weft.model import (
    Alarm,
    Fact,
    JobId,
    JobSnapshot,
    KeyChanged,
    Measured,
    NodeJoined,
    NodeLost,
    Planned,
    Progressed,
    Reserve,
    Seconds,
    Started,
    StateSnapshot,
    Stop,
    Usage,
    Used,
    Wake,
)
from weft.model.status import ACTIVE, ENDED
from weft.scheduling.core.resources.cluster import UncountedResources
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State

SHORTEST_REST_S = 1.0
"""The least remaining time that counts: a job about to end would distort the blocking index."""

UNCOUNTED: Final = frozenset({Alarm, Planned, Reserve, KeyChanged, Wake, Used})
"""Facts that change no figure, unless a job becomes eligible at the same instant."""
STEADY: Final = frozenset({Started, Progressed, Measured, Stop})
"""Facts about a run that holds its GPUs before and after."""


class _Track(Holder):
    """Figures of a job that the state does not keep."""

    __slots__ = ("gpus_area", "in_queue_s", "jobs_area", "mark", "offset", "per_s", "rho", "solo_s", "status")

    def __init__(self, at: Seconds, jobs_area: float, gpus_area: float) -> None:
        super().__init__()
        self.jobs_area, self.gpus_area = jobs_area, gpus_area
        self.status: Status | None = None
        self.solo_s: float | None = None
        self.rho: float | None = None
        self.mark = at
        self.in_queue_s = self.per_s = self.offset = 0.0


class Collector:
    """Follows a separate state, or `state` if it is given; then it also applies facts that change no figure."""

    def __init__(self, solo_s: Mapping[JobId, float], state: State | None = None) -> None:
        self._state = state or State()
        self._uncounted: frozenset[type] = UNCOUNTED if state is None else frozenset()
        if state is None:
            self._state.resources = UncountedResources()
        self._solo_s = solo_s
        self._early_gpus: Sequence[tuple[Seconds, int]] = ()
        """When the number of GPUs changed before the snapshot with which the journal begins, and to what."""
        self._tracks: dict[JobId, _Track] = {}
        self._busy = GpuTime()
        self._present = self._known = 0
        self._jobs_area = self._gpus_area = 0.0
        self._per_s = self._offset = 0.0
        """The sum of pending / remaining over the pending jobs with known remaining time is `now * per_s - offset`."""
        self._rows: list[ClusterRow] = []
        self._changed = False
        self._skipped_at: Seconds = 0.0

    @property
    def now(self) -> Seconds:
        """The time of the last fact, counted or not."""
        return max(self._state.now, self._skipped_at)

    def add(self, facts: Iterable[Fact]) -> None:
        state = self._state
        touched, uncounted = state.touched, self._uncounted
        for fact in facts:
            if type(fact) in uncounted and fact.at < state.eligibility.opens_at:
                self._skipped_at = fact.at
                continue
            if fact.at > state.now:
                self._advance(fact.at)
            if type(fact) is NodeLost and fact.node in state.resources.by_id:
                self._lose(fact)
                continue
            if type(fact) is JobSnapshot:
                self._restore(fact)
            elif type(fact) is StateSnapshot:
                self._early_gpus = fact.gpus
            steady = type(fact) in STEADY and fact.at < state.eligibility.opens_at
            applied = state.apply(fact)
            if steady:
                touched.clear()
                continue
            if type(fact) is NodeJoined and applied:
                self._busy.join(fact.node)
                self._changed = True
            for job in touched.values():
                self._follow(job)
            touched.clear()

    def close(self, until: Seconds = 0.0) -> list[ClusterRow]:
        """Return the rows. Runs that have not ended are counted up to the last instant, or to `until`."""
        self._add_row()
        for job in self._state.active:
            self._busy.settle(self._tracks[job], max(self.now, until))
        return self._rows

    @property
    def jobs(self) -> Mapping[JobId, JobState]:
        return self._state.jobs

    def records(self) -> list[JobRecord]:
        """Return the records of all jobs but the replicas of services, which have no end to wait for."""
        return [self._record(job) for job in self._state.jobs.values() if job.job.replica is None]

    def gpu_changes(self) -> list[tuple[Seconds, int]]:
        """Return when the number of GPUs changed, and to what; call it after `close`."""
        return gpu_changes(chain(self._early_gpus, ((row[0], row[2]) for row in self._rows)))

    def usage(self, job: JobId) -> tuple[float, float, float | None, float, float]:
        """Return the job's seconds in the queue, GPU seconds, rho, and the integrals behind it; after `close`."""
        track = self._tracks[job]
        jobs_s, gpus_s = self._jobs_area - track.jobs_area, self._gpus_area - track.gpus_area
        return self._queue_s(track), track.gpu_seconds, track.rho, jobs_s, gpus_s

    def _record(self, job: JobState) -> JobRecord:
        track = self._tracks[job.id]
        assert track.status is not None
        return JobRecord(
            job.id, job.job.user, job.gpus, track.status, job.submitted_at, job.first_start, job.ended_at, job.run,
            job.preemptions, self._queue_s(track), track.gpu_seconds, track.solo_s, track.rho, job.job.group,
            job.job.team,
        )  # fmt: skip

    def _queue_s(self, track: _Track) -> float:
        return track.in_queue_s + (self.now - track.mark if track.status == "waiting" else 0.0)

    # ---- time

    def _advance(self, at: Seconds) -> None:
        if self._changed:
            self._add_row()
            self._changed = False
        elapsed = at - self._state.now
        self._jobs_area += self._present * elapsed
        self._gpus_area += self._state.gpus * elapsed

    def _add_row(self) -> None:
        state, now = self._state, self._state.now
        blocking = max(now * self._per_s - self._offset, 0.0) / self._known if self._known else 0.0
        self._rows.append((now, self._busy.gpus, state.gpus, len(state.waiting), len(state.active), blocking))

    # ---- what changed

    def _lose(self, fact: NodeLost) -> None:
        """Remove the GPUs of a node, held or not."""
        state = self._state
        for job in state.active.values():
            gone = tuple(part for part in job.slots if part[0] == fact.node)
            if gone:
                self._busy.release_some(self._tracks[job.id], gone, fact.at)
        if state.apply(fact):
            self._busy.lose(fact.node)
            self._changed = True
        for job in state.touched.values():
            self._follow(job)
        state.touched.clear()

    def _restore(self, fact: JobSnapshot) -> None:
        """Continue from the figures of a job in a snapshot.

        Without them, its queue time is its life without GPUs, and its GPU seconds count from now on, as the GPUs of
        the cluster do.
        """
        usage = fact.usage
        if usage is None:
            end = fact.at if fact.ended_at is None else fact.ended_at
            held_s = fact.attained_s + (end - fact.started_at if fact.status in ACTIVE else 0.0)
            usage = Usage(queued_s=max(end - fact.submitted_at - held_s, 0.0))
        track = _Track(fact.at, self._jobs_area - usage.jobs_s, self._gpus_area - usage.gpus_s)
        track.in_queue_s, track.gpu_seconds, track.rho = usage.queued_s, usage.gpu_s, usage.rho
        self._tracks[fact.job.id] = track
        if fact.status in ENDED:
            track.status = fact.status  # type: ignore[assignment]
            track.solo_s = self._solo_s.get(fact.job.id, fact.attained_s)
            self._changed = True
        else:
            self._present += fact.job.replica is None

    def _follow(self, job: JobState) -> None:
        """Account for a possible change of the job's status."""
        track, now = self._tracks.get(job.id), self._state.now
        if track is None or (track.status in ENDED and job.status not in ENDED):  # new, or submitted again
            track = self._tracks[job.id] = _Track(now, self._jobs_area, self._gpus_area)
            self._present += job.job.replica is None
        status: Status = "running" if job.status in ACTIVE else job.status  # type: ignore[assignment]
        before = track.status
        if status == before:
            return
        track.status, self._changed = status, True
        if before == "waiting":
            self._unqueue(track, now)
        elif before == "running" and track.slots:
            self._busy.release(track, now)
        if status == "waiting":
            self._queue(track, job, now)
        elif status == "running":
            self._busy.hold(track, job.slots, now, len(job.weave) > 1)
        elif status in ENDED:
            self._end(track, job)

    def _end(self, track: _Track, job: JobState) -> None:
        self._present -= job.job.replica is None
        track.solo_s = self._solo_s.get(job.id, job.attained_s)
        jct_s = self._state.now - job.submitted_at
        if track.status != "done" or not track.solo_s or jct_s <= 0:
            return
        jobs, gpus = self._jobs_area - track.jobs_area, self._gpus_area - track.gpus_area
        shares = job.gpus * jobs / gpus if gpus else 1.0
        track.rho = jct_s / (track.solo_s * max(1.0, shares))

    # ---- the queue

    def _queue(self, track: _Track, job: JobState, at: Seconds) -> None:
        track.mark = at
        if job.remaining_s is not None:
            track.per_s = per_s = 1.0 / max(job.remaining_s, SHORTEST_REST_S)
            track.offset = (at - track.in_queue_s) * per_s
            self._known += 1
            self._per_s += per_s
            self._offset += track.offset

    def _unqueue(self, track: _Track, at: Seconds) -> None:
        track.in_queue_s += at - track.mark
        if track.per_s:
            self._known -= 1
            self._per_s -= track.per_s
            self._offset -= track.offset
            track.per_s = 0.0
            if not self._known:
                self._per_s = self._offset = 0.0
