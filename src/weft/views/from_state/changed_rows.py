"""The rows of a screen: all of them in pages at first, then those that have changed.

The cost of a message is limited: a message has the rows of jobs that facts name, and looks at a limited number of
others whose status or progress may have changed without a fact of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol, TypeVar

from weft.model import JobId, NodeId, Seconds
from weft.model.status import ENDED
from weft.scheduling.core.reasons import WaitReasons
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.views.answers.base import encode
from weft.views.answers.changes import ChangesView, CountsView
from weft.views.answers.jobs import JobView, ProgressView
from weft.views.answers.nodes import GpuView, NodeView
from weft.views.answers.services import ServiceView
from weft.views.answers.weaves import WeaveView
from weft.views.from_state.change_tracker import Changed
from weft.views.from_state.gpu_numbers import GpuNumbers
from weft.views.from_state.jobs_and_nodes import GpuRows, brief_reason, first_in_line, job_view, node_views
from weft.views.from_state.measured import GpuUsage, NodeConnection

PAGE_ROWS: Final = 100
MAX_FIRST_JOBS: Final = 20_000
"""Unfinished jobs in the first messages; further ones appear when they change."""
MAX_FIRST_ENDED: Final = 200
MAX_ORDER: Final = 200
MAX_SCANNED: Final = 5_000
"""Jobs whose status is compared with what was sent, in one message: dependencies and quotas change it silently."""
MAX_PROGRESS_ROWS: Final = 100
MAX_LOG_BARS: Final = 20
"""Running jobs without reports whose logs are searched for a progress bar."""
MAX_REASONS: Final = 100
MAX_WEAVES: Final = 200
T = TypeVar("T")
Readings = Mapping[tuple[NodeId, int], GpuUsage]


class Sources(Protocol):
    """The sources of rows."""

    @property
    def scheduler(self) -> Scheduler: ...

    @property
    def policy(self) -> str: ...

    @property
    def numbers(self) -> GpuNumbers: ...

    def now(self) -> Seconds: ...

    def progress(self, job: JobState) -> ProgressView | None: ...

    def reported(self, since: Seconds) -> Sequence[JobId]:
        """Return the running jobs that have reported progress since then."""

    def readings(self) -> Readings: ...

    def connections(self) -> Mapping[NodeId, NodeConnection]: ...

    def services(self) -> Sequence[ServiceView]: ...

    def weaves(self) -> Sequence[WeaveView]: ...


class ChangeBuilder:
    """Builds messages, and remembers what the last changes contained. Snapshots do not change that."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._statuses: dict[JobId, str] = {}
        """Unfinished jobs as last sent."""
        self._scan: Iterator[JobId] = iter(())
        self._bars: Iterator[JobId] = iter(())
        self._order: list[JobId] = []
        self._reasons: dict[JobId, str] = {}
        self._readings: Readings = {}
        self._nodes: dict[NodeId, NodeView] = {}
        self._services = self._weaves = ""
        self._counts = CountsView()
        self._reported_at: Seconds = 0.0

    # ---- the first messages

    def snapshot(self) -> Iterator[ChangesView]:
        """Yield everything in pages. Each page shows the moment at which it is taken."""
        sources, state, readings = self._sources, self._sources.scheduler.state, self._sources.readings()
        services, weaves = list(sources.services()), list(sources.weaves())[:MAX_WEAVES]
        yield ChangesView(
            now=sources.now(), reset=True, counts=self._count(), order=self._first_waiting(),
            nodes=node_views(state, sources.connections()), services=services, weaves=weaves,
        )  # fmt: skip
        for hosts in _pages([host for host in state.resources.nodes if host.alive], 8):
            rows = GpuRows(state, readings, sources.numbers)
            yield ChangesView(now=sources.now(), gpus=[row for host in hosts for row in rows.of_node(host)])
        for jobs in _pages(_first_jobs(state), PAGE_ROWS):
            for job in jobs:
                if job.status not in ENDED:  # other clients may have an older status
                    self._statuses.setdefault(job.id, job.status)
            yield ChangesView(now=sources.now(), jobs=self._job_rows(jobs))

    # ---- changes

    def changes(self, changed: Changed, *, slow: bool) -> ChangesView | None:
        """Return what has changed, or None. With `slow`, look also at readings, nodes, progress and the order."""
        state, now = self._sources.scheduler.state, self._sources.now()
        jobs = dict.fromkeys(changed.jobs)
        gpus = self._gpus_of(state, jobs)
        jobs.update(dict.fromkeys(self._scanned(state)))
        found: dict[str, object] = {}
        left = [node for node in changed.nodes if (host := state.resources.by_id.get(node)) is None or not host.alive]
        for node in left:
            self._nodes.pop(node, None)  # clients drop its row: one that is still listed is sent again
        if slow:
            jobs.update(dict.fromkeys(self._with_progress(state, now)))
            found |= self._look_around(state, jobs, gpus, bool(changed.facts))
        for node in changed.nodes:
            host = state.resources.by_id.get(node)
            if host is not None and host.alive:
                gpus.update(dict.fromkeys((node, gpu) for gpu in range(len(host.node.gpus))))
        purged = [job for job in (*changed.purged, *jobs) if job not in state.jobs]
        for job in purged:
            self._statuses.pop(job, None)
        counts = self._count()
        found |= {
            "counts": counts if counts != self._counts else None,
            "jobs": self._job_rows(self._note_sent(state.jobs[job] for job in jobs if job in state.jobs)) or None,
            "purged": purged or None,
            "gpus": self._gpu_rows(state, gpus) or None,
            "left": left or None,
            "events": changed.events or None,
            "missed_events": changed.missed_events or None,
        }
        self._counts = counts
        if all(value is None for value in found.values()):
            return None
        return ChangesView(now=now, **found)  # type: ignore[arg-type]

    def _gpus_of(self, state: State, jobs: Iterable[JobId]) -> dict[tuple[NodeId, int], None]:
        """Return the GPUs that these jobs hold, or held in their last run."""
        held = (state.jobs[job] for job in jobs if job in state.jobs)
        return {(node, gpu): None for job in held for node, gpus in job.placed for gpu in gpus}

    def _scanned(self, state: State) -> list[JobId]:
        """Return the jobs among the next ones of the round whose status is not the one that was sent."""
        names = list(islice(self._scan, MAX_SCANNED))
        if len(names) < MAX_SCANNED:
            self._scan = iter(list(self._statuses))
        jobs, sent = state.jobs, self._statuses
        return [
            name for name in names if name in sent and ((job := jobs.get(name)) is None or job.status != sent[name])
        ]

    def _with_progress(self, state: State, now: Seconds) -> list[JobId]:
        reported = list(islice(self._sources.reported(self._reported_at), MAX_PROGRESS_ROWS))
        self._reported_at = now
        some = list(islice(self._bars, MAX_LOG_BARS))
        if len(some) < MAX_LOG_BARS:
            self._bars = iter(list(state.active))
        return [*reported, *(name for name in some if name in state.active)]

    def _look_around(
        self, state: State, jobs: dict[JobId, None], gpus: dict[tuple[NodeId, int], None], has_facts: bool
    ) -> dict[str, object]:
        """Return what changes without facts, and add the rows that it concerns."""
        found: dict[str, object] = {}
        if has_facts:
            order = self._first_waiting()
            found["order"] = order if order != self._order else None
            self._order = order
            jobs.update(dict.fromkeys(self._with_other_reasons(state)))
        readings, old = self._sources.readings(), self._readings
        self._readings = readings
        usage: dict[NodeId, list[tuple[int, int | None, float | None]]] = {}
        for where, now in readings.items():
            before = old.get(where)
            if before is None or (before.error, before.misplaced) != (now.error, now.misplaced):
                gpus[where] = None
            elif (before.used_mb, before.utilisation) != (now.used_mb, now.utilisation):
                row = (self._sources.numbers.number(*where), now.used_mb, now.utilisation)
                usage.setdefault(where[0], []).append(row)
        found["readings"] = usage or None
        found["nodes"] = self._node_rows() or None
        services, weaves = list(self._sources.services()), list(self._sources.weaves())[:MAX_WEAVES]
        texts = "".join(map(encode, services)), "".join(map(encode, weaves))
        found["services"] = services if texts[0] != self._services else None
        found["weaves"] = weaves if texts[1] != self._weaves else None
        self._services, self._weaves = texts
        return found

    # ---- rows

    def _job_rows(self, jobs: Iterable[JobState]) -> list[JobView]:
        sources, now = self._sources, self._sources.now()
        reasons, first = WaitReasons(sources.scheduler, now), first_in_line(sources.scheduler)
        renumber, progress = sources.numbers.renumbered, sources.progress
        return [job_view(job, now, brief_reason(reasons, job, first), progress(job), renumber) for job in jobs]

    def _note_sent(self, jobs: Iterable[JobState]) -> list[JobState]:
        """Return the jobs, after recording the statuses that all clients get now."""
        found = list(jobs)
        for job in found:
            if job.status in ENDED:
                self._statuses.pop(job.id, None)
            else:
                self._statuses[job.id] = job.status
        return found

    def _with_other_reasons(self, state: State) -> list[JobId]:
        """Return the first waiting jobs whose reason is another one than before."""
        scheduler = self._sources.scheduler
        reasons, first = WaitReasons(scheduler, self._sources.now()), first_in_line(scheduler)
        head = [state.jobs[name] for name in self._order[:MAX_REASONS] if name in state.jobs]
        found = {job.id: brief_reason(reasons, job, first) for job in head}
        changed = [name for name, reason in found.items() if self._reasons.get(name, reason) != reason]
        self._reasons = found
        return changed

    def _gpu_rows(self, state: State, gpus: Iterable[tuple[NodeId, int]]) -> list[GpuView]:
        rows, hosts = GpuRows(state, self._readings, self._sources.numbers), state.resources.by_id
        alive = ((hosts.get(node), gpu) for node, gpu in gpus)
        return [
            rows.row(host, gpu) for host, gpu in alive if host is not None and host.alive and gpu < len(host.node.gpus)
        ]

    def _node_rows(self) -> list[NodeView]:
        """Return the nodes that have changed, apart from the age of their heartbeats."""
        rows = {row.node: row for row in node_views(self._sources.scheduler.state, self._sources.connections())}
        old, self._nodes = self._nodes, rows
        return [row for row in rows.values() if row.node not in old or _differ(row, old[row.node])]

    def _first_waiting(self) -> list[JobId]:
        return [job.id for job in islice(self._sources.scheduler.in_order(), MAX_ORDER)]

    def _count(self) -> CountsView:
        state = self._sources.scheduler.state
        running, ended = len(state.active), len(state.ended)
        return CountsView(running, len(state.jobs) - ended - running, ended, self._sources.policy, dict(state.paused))


def _first_jobs(state: State) -> list[JobState]:
    """Return the jobs of the first messages: those that run, wait and are blocked, and the last ones that ended."""
    unfinished: list[JobState] = [*state.active.values(), *state.waiting.values(), *state.services.waiting.values()]
    if len(unfinished) < len(state.jobs) - len(state.ended):
        unfinished += [job for job in state.jobs.values() if job.status in ("blocked", "held")]
    return [*unfinished[:MAX_FIRST_JOBS], *islice(reversed(state.ended.values()), MAX_FIRST_ENDED)]


def _differ(one: NodeView, other: NodeView) -> bool:
    here, there = vars(one), vars(other)
    return any(here[name] != there[name] for name in here if name not in ("beat_s", "lost_in_s"))


def _pages(rows: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (rows[at : at + size] for at in range(0, len(rows), size))
