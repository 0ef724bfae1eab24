"""The realistic cost model: a start takes the start-up time; a stop, a crash or a lost node loses the work since the
last checkpoint.

In between, a run has a constant pace, which `speed` computes: alone, spread, woven or sharing GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Final

from weft.model import Event, Exited, Job, JobId, NodeId, Progressed, Rewoven, Seconds, Start, Started, Stop
from weft.sim.costs.speed import Run, Speed
from weft.sim.faults.estimates import Estimates
from weft.sim.faults.failures import Crashes
from weft.sim.traces.trace import TraceJob

CHECKPOINT_INTERVAL_S = 600.0
NO_EVENTS: Final[Sequence[Event]] = ()


class RealCosts:
    """Realistic costs. Work is counted in solo seconds."""

    def __init__(
        self,
        jobs: Mapping[JobId, TraceJob],
        speed: Speed,
        checkpoint_interval_s: float,
        estimates: Estimates,
        crashes: Crashes,
    ) -> None:
        self._jobs, self._speed, self._checkpoint_s = jobs, speed, checkpoint_interval_s
        self._estimates, self._crashes = estimates, crashes
        self._sharing, self.near_arrival = speed.sharing, False
        self._left: dict[JobId, float] = {}
        """Work of each job after its last checkpoint."""
        self._runs: dict[JobId, Run] = {}
        self._heap: list[tuple[Seconds, int, Run]] = []
        """Time, version and run of the next events. An entry with an old version is void."""
        self._replicas: dict[JobId, Run] = {}
        """Replicas of services, which slow down the runs next to them."""
        self._pushed = 0

    def start(self, start: Start) -> Sequence[Event]:
        """Give the run its GPUs now. It begins to work after the start-up time."""
        traced = self._jobs[start.job]
        job, left = traced.job, self._left.get(start.job)
        if left is None:
            left = traced.work_s
        run = Run(job, start, left, self._crashes.remaining_at_crash(start.job, start.run, left))
        self._runs[start.job] = run
        if self._sharing:
            self._speed.arrive(run)
        self._push(run, start.at + job.profile.start_s if job.profile is not None else start.at)
        return NO_EVENTS

    def resume(self, start: Start, left: float, done: float, begins_at: Seconds | None = None) -> None:
        """Continue a run that began before the simulation, with this work left and this work done since its start.

        `begins_at`: when it begins to work; None: it works already. Call `resume_all` after the last of these."""
        self._runs[start.job] = run = Run(self._jobs[start.job].job, start, left, 0.0)
        run.started, self._left[start.job] = begins_at is None, left + done
        if self._sharing:
            self._speed.arrive(run)
        if begins_at is not None:
            self._push(run, begins_at)

    def resume_all(self, now: Seconds) -> None:
        """Let the runs that work already go on from now, at the pace that their neighbours allow."""
        for run in self._runs.values():
            if run.started:
                run.since, run.pace = now, self._pace(run)
                self._push(run, self._end(run, now))

    def stop(self, stop: Stop) -> list[Event]:
        """End the run at once. It keeps the work up to its last checkpoint."""
        run = self._runs[stop.job]
        if run.started:
            self._advance(run, stop.at)
        left = self._save(run, all_of_it=stop.why == "moved")
        return [*self._remove(run, stop.at), Exited(stop.at, stop.job, stop.run, "stopped", left)]

    def reweave(self, rewoven: Rewoven) -> Sequence[Event]:
        """Give the run other partners: its pace changes, and that of its old and new partners."""
        run = self._runs[rewoven.job]
        before = self._affected(run)
        run.members = rewoven.weave
        affected = dict.fromkeys((*before, *self._affected(run), *((run,) if run.started else ())))
        return self._repace_all(list(affected), rewoven.at)

    def host(self, replica: Job, start: Start) -> Sequence[Event]:
        """Give a replica its GPUs: the runs next to it slow down."""
        run = self._replicas[replica.id] = Run(replica, start, 0.0, 0.0)
        self._speed.arrive(run)
        return self._repace_all([r for r in self._speed.neighbours(run) if r.started], start.at)

    def unhost(self, replica: JobId, now: Seconds) -> Sequence[Event]:
        """Take its GPUs from a replica."""
        run = self._replicas.pop(replica, None)
        if run is None:
            return NO_EVENTS
        affected = [r for r in self._speed.neighbours(run) if r.started]
        self._speed.leave(run)
        return self._repace_all(affected, now)

    def lose(self, node: NodeId, now: Seconds) -> list[Event]:
        """Remove runs with GPUs only on this node, back to their last checkpoint. Others get a Stop."""
        events: list[Event] = []
        for run in [run for run in self._runs.values() if any(node == held for held, _ in run.slots)]:
            if self._speed.shrink(run, node):
                continue
            if run.started:
                self._advance(run, now)
                events.append(Progressed(now, run.job.id, run.run, self._save(run), 1 / run.pace))
            events += self._remove(run, now)
        return events

    def next_time(self) -> Seconds:
        heap = self._heap
        while heap:
            at, version, run = heap[0]
            if run.version == version:
                return at
            heappop(heap)
        return float("inf")

    def coincides(self, ending: Seconds, arrival: Seconds) -> bool:
        return ending == arrival

    def happen(self, now: Seconds) -> list[Event]:
        """Return the events of runs that begin to work, finish or crash now."""
        events: list[Event] = []
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, version, run = heappop(heap)
            if run.version != version:
                continue
            if not run.started:
                self._begin(run, now, events)
            elif run.crash_left:
                events += self._crash(run, now)
            else:
                events.append(Exited(now, run.job.id, run.run, "done", 0.0))
                if run.members or self._sharing:
                    events += self._remove(run, now)
                else:  # as `_remove`, for most runs
                    del self._runs[run.job.id]
        return events

    def settle(self, now: Seconds) -> None:
        """Do nothing: no cost depends on the instant as a whole."""

    # ---- inside

    def _begin(self, run: Run, now: Seconds, events: list[Event]) -> None:
        run.started, run.since = True, now
        run.pace = pace = self._pace(run)
        self._push(run, now + (run.left - run.crash_left) * pace)
        events.append(Started(now, run.job.id, run.run, 1 / pace))
        if run.members or self._sharing:
            events += self._repace_all(self._affected(run), now)

    def _crash(self, run: Run, now: Seconds) -> list[Event]:
        run.left = run.crash_left
        return [Exited(now, run.job.id, run.run, "failed", self._save(run)), *self._remove(run, now)]

    def _save(self, run: Run, *, all_of_it: bool = False) -> float | None:
        """Keep the work up to the last checkpoint. Return the remaining seconds as the scheduler estimates them."""
        before = self._left.get(run.job.id)
        if before is None:
            before = self._jobs[run.job.id].work_s
        done = before - run.left
        if self._checkpoint_s and not all_of_it:
            done -= done % self._checkpoint_s
        self._left[run.job.id] = left = before - done
        return self._believed(run, left)

    def _believed(self, run: Run, left: float) -> float | None:
        return self._estimates.remaining_s(run.job.id, self._jobs[run.job.id].work_s - left, left)

    def _remove(self, run: Run, now: Seconds) -> Sequence[Event]:
        run.version = -1
        del self._runs[run.job.id]
        if not run.members and not self._sharing:
            return NO_EVENTS
        affected = self._affected(run)
        self._speed.leave(run)
        return self._repace_all(affected, now)

    def _affected(self, run: Run) -> list[Run]:
        woven = [self._runs[m] for m in run.members if m != run.job.id and m in self._runs]
        return [r for r in (*woven, *self._speed.neighbours(run)) if r.started]

    def _repace_all(self, runs: list[Run], now: Seconds) -> list[Event]:
        """Update the pace of runs whose neighbours changed. Return their progress."""
        events: list[Event] = []
        for run in runs:
            pace = self._pace(run)
            if pace != run.pace:
                self._advance(run, now)
                run.pace = pace
                self._push(run, self._end(run, now))
                events.append(Progressed(now, run.job.id, run.run, self._believed(run, run.left), 1 / pace))
        return events

    def _pace(self, run: Run) -> float:
        if len(run.slots) == 1 and not run.members and not self._sharing:
            return 1.0
        pace = self._speed.span(run.slots)
        if run.members:
            working = [self._runs[m] for m in run.members if m in self._runs and self._runs[m].started]
            pace *= self._speed.woven(run, working)
        return pace * self._speed.shared(run) if self._sharing else pace

    def _advance(self, run: Run, now: Seconds) -> None:
        run.left = max(run.left - (now - run.since) / run.pace, 0.0)
        run.since = now

    def _end(self, run: Run, now: Seconds) -> Seconds:
        """Return when the run finishes or crashes."""
        return now + (run.left - run.crash_left) * run.pace

    def _push(self, run: Run, at: Seconds) -> None:
        self._pushed += 1
        run.version = self._pushed
        heappush(self._heap, (at, self._pushed, run))
