"""The cost model of Muri's simulator, for figures that compare with the published ones.

The cluster is re-planned at every arrival and completion. Each time, every running job pays the start-up time of its
model (a weave: of all its members), whether or not it moved. An interval that ends in a completion costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isclose

from weft.model import Event, Exited, JobId, NodeId, Outcome, Progressed, Rewoven, Seconds, Start, Started, Stop
from weft.sim.costs.speed import Run, Speed, profile_of
from weft.sim.faults.estimates import Estimates
from weft.sim.faults.failures import Crashes
from weft.sim.traces.trace import TraceJob


@dataclass(frozen=True)
class Quirks:
    """The differences between the six loops of the original."""

    placement: str = "yarn"
    group_ends: bool = True
    """True if completions within 1e-9 of each other are one event."""
    near_arrival: bool = False
    """True if a completion close to an arrival is one event with it."""


QUIRKS = {
    "tiresias": Quirks(placement="count", group_ends=False),
    "muri-s": Quirks(near_arrival=True),
    "muri-l": Quirks(near_arrival=True),
}


def makespan_since(model: object) -> Seconds | None:
    """Return where the makespan begins: at 0 in Muri's model; None: at the first submission."""
    return 0.0 if model == "muri" else None


class MuriCosts:
    """Muri's costs. Work is counted in iterations."""

    def __init__(
        self, jobs: Mapping[JobId, TraceJob], speed: Speed, quirks: Quirks, estimates: Estimates, crashes: Crashes
    ) -> None:
        self._jobs, self._speed, self._quirks = jobs, speed, quirks
        self._estimates, self._crashes = estimates, crashes
        self._left: dict[JobId, float] = {}
        self._runs: dict[JobId, Run] = {}
        self._ending: list[Run] = []
        self._end: Seconds = float("inf")
        self.near_arrival = quirks.near_arrival

    def start(self, start: Start) -> list[Event]:
        left = self._left.get(start.job)
        if left is None:
            left = self._iterations(start.job)
        crash_left = self._crashes.remaining_at_crash(start.job, start.run, left)
        run = Run(self._jobs[start.job].job, start, left, crash_left)
        run.started, run.since = True, start.at
        self._runs[start.job] = run
        self._speed.arrive(run)
        return [Started(start.at, start.job, start.run, 0.0)]

    def stop(self, stop: Stop) -> list[Event]:
        run = self._remove(stop.job)
        return [Exited(stop.at, stop.job, stop.run, "stopped", self._believed_s(run))]

    def reweave(self, rewoven: Rewoven) -> list[Event]:
        """Give the run other partners; `settle` sets its pace."""
        self._runs[rewoven.job].members = rewoven.weave
        return []

    def lose(self, node: NodeId, now: Seconds) -> list[Event]:  # noqa: ARG002
        """Remove runs with GPUs only on this node; `happen` has reported their progress. Others get a Stop."""
        for run in [run for run in self._runs.values() if any(node == held for held, _ in run.slots)]:
            if not self._speed.shrink(run, node):
                self._remove(run.job.id)
        return []

    def next_time(self) -> Seconds:
        return self._end

    def coincides(self, ending: Seconds, arrival: Seconds) -> bool:
        if self._quirks.near_arrival:
            return isclose(ending, arrival, rel_tol=1e-9) or abs(ending - arrival) < 1e-4
        return ending == arrival

    def happen(self, now: Seconds) -> list[Event]:
        """Return completions and crashes, then the progress of every other run."""
        events: list[Event] = []
        if self._end <= now or self.coincides(self._end, now):
            for run in self._ending:
                run.left = run.crash_left
                self._remove(run.job.id)
                how: Outcome = "failed" if run.crash_left else "done"
                events.append(Exited(now, run.job.id, run.run, how, self._believed_s(run) if run.crash_left else 0.0))
        for run in self._runs.values():
            run.left -= max(now - run.since - run.overhead, 0.0) / run.pace
            run.since = now
            solo = profile_of(run).iteration_s
            events.append(Progressed(now, run.job.id, run.run, self._believed_s(run), solo / run.pace))
        return events

    def settle(self, now: Seconds) -> None:
        """Predict every completion, without overhead, and find the first."""
        self._end, self._ending = float("inf"), []
        woven: dict[tuple[JobId, ...], tuple[dict[JobId, float], float]] = {}
        for run in self._runs.values():
            if run.members:
                known = woven.get(run.members)
                if known is None:
                    known = woven[run.members] = self._woven_paces(run.members)
                run.pace, run.overhead = known[0][run.job.id], known[1]
            else:
                self._set_pace(run)
            run.end = now + (run.left - run.crash_left) * run.pace
            if self._together(run.end, self._end):
                self._ending.append(run)
            elif run.end < self._end:
                self._end, self._ending = run.end, [run]

    # ---- inside

    def _together(self, end: Seconds, other: Seconds) -> bool:
        return end == other or (self._quirks.group_ends and isclose(end, other, rel_tol=1e-9))

    def _woven_paces(self, weave: tuple[JobId, ...]) -> tuple[dict[JobId, float], float]:
        """Return the pace of each member of a weave, and the overhead of all."""
        names = [member for member in weave if member in self._runs]
        members = [profile_of(self._runs[member]) for member in names]
        paces = dict(zip(names, self._speed.pace.iterations_s(members), strict=True))
        return paces, sum(p.start_s for p in members)

    def _set_pace(self, run: Run) -> None:
        profile = profile_of(run)
        run.pace, run.overhead = profile.iteration_s, profile.start_s
        if self._speed.sharing and not run.guaranteed:
            run.pace = self._speed.guest_iteration_s(run)

    def _remove(self, job: JobId) -> Run:
        """End a run without loss of work."""
        run = self._runs.pop(job)
        self._left[job] = run.left
        self._speed.leave(run)
        return run

    def _believed_s(self, run: Run) -> float | None:
        solo = profile_of(run).iteration_s
        left_s = run.left * solo
        return self._estimates.remaining_s(run.job.id, self._iterations(run.job.id) * solo - left_s, left_s)

    def _iterations(self, job: JobId) -> float:
        known = self._jobs[job]
        if known.job.iterations is not None:
            return float(known.job.iterations)
        assert known.job.profile is not None
        return known.work_s / known.job.profile.iteration_s
