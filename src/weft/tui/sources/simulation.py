"""A simulation as a source: a thread plays it at a chosen speed, and its rows are those of a real scheduler."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from weft.access.jobspec.description import describe
from weft.errors import NotFound, Refused, WeftError
from weft.model import Event, JobId, NodeId, Seconds
from weft.scheduling.core.explain import explain
from weft.scheduling.core.reasons import WaitReasons
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import JobState
from weft.scheduling.plugins.errors import attribute_errors
from weft.sim.simulation import Setting, advance, prepare
from weft.tui.sources.base import Link, Outcome, Receive
from weft.views.answers.base import replace_fields
from weft.views.answers.changes import ChangesView
from weft.views.answers.explain import ExplainView, ahead_of, reasons_of, unblock_of
from weft.views.answers.jobs import JobDetailView, ProgressView
from weft.views.answers.services import ServiceView
from weft.views.answers.weaves import WeaveView
from weft.views.from_state.change_tracker import ChangeTracker
from weft.views.from_state.changed_rows import ChangeBuilder, Readings
from weft.views.from_state.gpu_numbers import GpuNumbers
from weft.views.from_state.jobs_and_nodes import brief_reason, first_in_line, job_detail
from weft.views.from_state.measured import NO_LOAD, NodeConnection, WovenRun
from weft.views.from_state.run_history import RunHistory
from weft.views.from_state.services import service_view
from weft.views.from_state.weaves import weave_views

FRAME_S: Final = 0.25
SLOW_FRAMES: Final = 4
MIN_SPEED: Final = 0.25
MAX_SPEED: Final = 1e7
MAX_FRAME_CPU_S: Final = 0.1
"""A frame that would take longer shows less simulated time: the screen stays responsive."""
STEPS: Final = 1000
"""Parts that the progress of a simulated job is counted in."""


class SimulatedSources:
    """The rows of a scheduler in a simulation."""

    def __init__(self, scheduler: Scheduler, policy: str) -> None:
        self.scheduler, self.policy, self.numbers = scheduler, policy, GpuNumbers()
        self.at: Seconds = 0.0
        self._work: dict[JobId, float] = {}

    def now(self) -> Seconds:
        return self.at

    def progress(self, job: JobState) -> ProgressView | None:
        """Return how much of its work a running job has done, by what the simulator knows."""
        left = job.remaining(self.at) if job.run else float("inf")
        if left == float("inf"):
            return None
        whole = self._work.setdefault(job.id, max(left, job.job.declared_s or 0.0, 1e-9))
        step = STEPS if job.status == "done" else round(STEPS * (1 - min(left / whole, 1.0)))
        return ProgressView(step, STEPS, job.ends_in(self.at) if job.active else None, source="sim")

    def reported(self, since: Seconds) -> Sequence[JobId]:  # noqa: ARG002
        return list(self.scheduler.state.active)

    def readings(self) -> Readings:
        return {}

    def connections(self) -> Mapping[NodeId, NodeConnection]:
        return {}

    def services(self) -> Sequence[ServiceView]:
        names = sorted(self.scheduler.state.services.by_name)
        return [service_view(self.scheduler, name, self.at, NO_LOAD, "", lambda slots: slots) for name in names]

    def of(self, _job: JobState) -> WovenRun | None:
        """Return None: simulated runs report no turns."""

    def weaves(self) -> Sequence[WeaveView]:
        state = self.scheduler.state
        return weave_views(state, self, getattr(self.scheduler.policy, "order", ""), lambda slots: slots)


class SimulationSource:
    """Plays a setting. The speed is in simulated seconds per second."""

    simulated = True

    def __init__(self, setting: Setting, title: str, policy: str, speed: float) -> None:
        self.title = title
        scheduler, self._engine = prepare(setting)
        self._sources = SimulatedSources(scheduler, policy)
        self._instants = iter(self._engine.instants())
        self._tracker, self._builder = ChangeTracker(self._sources.numbers), ChangeBuilder(self._sources)
        self._runs = RunHistory()
        self._speed, self._is_paused, self._is_over = speed, False, False
        self._next: Sequence[Event] | None = None
        """The next instant, which has not happened yet."""
        self._lock = threading.Lock()
        """Held while the simulation moves, and while a query reads its state."""
        self._stopped = threading.Event()

    # ---- playing

    def start(self, receive: Receive) -> None:
        threading.Thread(target=self._play, args=(receive,), name="simulation", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def pause(self) -> None:
        self._is_paused = not self._is_paused

    def faster(self, by: float) -> None:
        self._speed = min(max(self._speed * by, MIN_SPEED), MAX_SPEED)

    def _play(self, receive: Receive) -> None:
        try:
            self._play_frames(receive)
        except WeftError as error:
            receive(Link(f"✖ {str(error).partition(chr(10))[0]}", False))

    def _play_frames(self, receive: Receive) -> None:
        with self._lock:
            self._advance(0.0)
            self._tracker.take()
            pages = list(self._builder.snapshot())
        for page in pages:
            receive(page)
        frames = 0
        while not self._stopped.is_set():
            receive(self._link())
            began, frames = time.monotonic(), frames + 1
            if not self._is_paused and not self._is_over:
                with self._lock:
                    self._advance(self._sources.at + self._speed * FRAME_S)
                    found = self._builder.changes(self._tracker.take(), slow=frames % SLOW_FRAMES == 0)
                receive(found or ChangesView(now=self._sources.at))  # the clock of the screen follows messages
            self._stopped.wait(max(FRAME_S - (time.monotonic() - began), 0.01))

    def _link(self) -> Link:
        if self._is_over:
            return Link("■ the simulation has ended", True)
        speed = f"{self._speed:,.0f}" if self._speed >= 1 else f"{self._speed:g}"
        return Link(f"‖ paused, {speed}x" if self._is_paused else f"▶ {speed}x", True)

    def _advance(self, until: Seconds) -> None:
        """Let everything happen up to a time. Stop earlier if that takes too long."""
        began = time.thread_time()
        scheduler = self._sources.scheduler
        with attribute_errors(scheduler.policy, scheduler.placement, scheduler):
            while not self._is_over:
                if self._next is None:
                    self._next = next(self._instants, None)
                    self._is_over = self._next is None
                    continue
                if self._next and self._next[-1].at > until:
                    self._sources.at = max(self._sources.at, until)
                    return
                self._step(self._next)
                self._next = None
                if time.thread_time() - began > MAX_FRAME_CPU_S:
                    return

    def _step(self, events: Sequence[Event]) -> None:
        if events:
            self._sources.at = events[-1].at
        facts = advance(self._sources.scheduler, self._engine, events)
        self._tracker.record(facts)
        self._runs.record(facts)

    # ---- queries

    def _job(self, name: str) -> JobState:
        found = self._sources.scheduler.state.jobs.get(name)
        if found is None:
            raise NotFound(f"no job {name!r}")
        return found

    def job(self, job: str) -> JobDetailView:
        with self._lock:
            known, sources = self._job(job), self._sources
            reasons, first = WaitReasons(sources.scheduler, sources.at), first_in_line(sources.scheduler)
            reason = brief_reason(reasons, known, first)
            found = job_detail(known, sources.at, reason, sources.progress(known), sources.numbers, describe)
            return replace_fields(found, runs=self._runs.of(job, sources.numbers))

    def explain(self, job: str, *, forecast: bool = False) -> ExplainView:  # noqa: ARG002
        with self._lock:
            known, now = self._job(job), self._sources.at
            found = explain(self._sources.scheduler, job, at=now)
            return ExplainView(
                name=known.job.name, job=job, status=known.status, reasons=reasons_of(found), position=found.position,
                waiting=found.waiting, ahead=ahead_of(found), unblock=unblock_of(found),
            )  # fmt: skip

    def change(self, verb: str, jobs: Sequence[str], settings: dict[str, str]) -> Outcome:  # noqa: ARG002
        raise Refused("a simulation cannot be changed")

    def follow_log(self, job: str, receive: Callable[[bytes], None]) -> Callable[[], None]:  # noqa: ARG002
        receive(b"a simulated job has no log\n")
        return lambda: None
