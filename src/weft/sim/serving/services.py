"""The services of a simulation next to its training jobs: they turn requests into events, and load into wishes.

Once a second each service is advanced to the present, its load is measured, and its autoscaler decides. Replicas start
and stop as the scheduler decides; a replica is ready after its cold start.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from math import ceil

from weft.model import (
    Decision,
    Deployed,
    DrainReplica,
    Event,
    Exited,
    JobId,
    Ready,
    ReplicaDrained,
    Seconds,
    Start,
    Started,
    Stop,
    Undeployed,
)
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.scheduling.scaling.capacity import LearnedCapacity
from weft.scheduling.scaling.port import TICK_S, Load, Resize, ScaleState, decide
from weft.sim.serving.pool import Replica, ReplicaPool
from weft.sim.serving.run import Series, ServiceFigures, figures_of
from weft.sim.serving.workload import ServiceWorkload

NEVER = float("inf")


class SimulatedServices:
    """All services of a simulation, and their replicas."""

    def __init__(self, workloads: Sequence[ServiceWorkload]) -> None:
        self.by_name = {each.service.name: _Served(each) for each in workloads}
        self._starting: list[tuple[Seconds, JobId, int]] = []
        """A heap of the runs that are not ready yet, by the time at which they will be."""
        self._runs: dict[JobId, _Run] = {}
        self._draining: dict[JobId, int] = {}
        self._tick = 0.0
        self.now: Seconds = 0.0
        self.ticked = False
        """True if the last instant was a tick, so that autoscalers decide."""

    @property
    def over(self) -> bool:
        """True once all requests are answered and all services are gone."""
        return all(each.over for each in self.by_name.values()) and not self._runs

    def next_time(self) -> Seconds:
        tick = NEVER if self.over else self._tick
        return min(tick, self._starting[0][0]) if self._starting else tick

    def happen(self, now: Seconds) -> list[Event]:
        """Return the events of services at this instant."""
        events: list[Event] = []
        self.now = now
        while self._starting and self._starting[0][0] <= now:
            _, job, run = heappop(self._starting)
            known = self._runs.get(job)
            if known is not None and known.number == run:
                known.get_ready(now)
                events.append(Ready(now, job, run))
        self.ticked = now >= self._tick and not self.over
        if self.ticked:
            self._tick = now + TICK_S
            for served in self.by_name.values():
                events += served.advance(now)
            events += self._drained(now)
        return events

    def _drained(self, now: Seconds) -> list[Event]:
        """Return the replicas that have answered their last request."""
        found: list[Event] = []
        for job, run in list(self._draining.items()):
            replica = self._runs[job].replica
            if replica is None or replica.ended_s < NEVER:
                del self._draining[job]
                found.append(ReplicaDrained(now, job, run))
        return found

    def execute(self, decision: Decision, job: JobState) -> list[Event]:
        """Carry out a decision about a replica; return the events that follow at once."""
        made_for, now = job.job.replica, decision.at
        assert made_for is not None
        served = self.by_name[made_for.service]
        if isinstance(decision, Start):
            self._runs[job.id] = _Run(served, decision.run, now)
            served.starts += 1
            heappush(self._starting, (now + served.workload.simulated.cold_start_s, job.id, decision.run))
            return [Started(now, job.id, decision.run)]
        if isinstance(decision, DrainReplica):
            replica = self._runs[job.id].replica
            if replica is not None and served.pool.drain(replica):
                self._draining[job.id] = decision.run
                return []
            return [ReplicaDrained(now, job.id, decision.run)]
        if isinstance(decision, Stop):
            self._end(job.id, now)
            return [Exited(now, job.id, decision.run, "stopped")]
        return []

    def lose(self, jobs: Sequence[JobState], now: Seconds) -> None:
        """End the replicas among these runs: their node is lost."""
        for job in jobs:
            if job.id in self._runs:
                self._end(job.id, now)

    def _end(self, job: JobId, now: Seconds) -> None:
        run = self._runs.pop(job)
        self._draining.pop(job, None)
        run.end(now)

    def resizes(self, state: State) -> list[Resize]:
        """Return what the autoscalers want after a tick; give replicas the share that their neighbours leave."""
        self._share(state)
        found = []
        for name, served in self.by_name.items():
            service = state.services.by_name.get(name)
            if service is not None and not service.undeployed and not served.closed:
                staying = service.staying()
                found.append(served.wish(len(staying), sum(r.ready_at is not None for r in staying)))
        return found

    def _share(self, state: State) -> None:
        """Let a replica run at its limit while it has its GPUs for itself, and at its request otherwise."""
        for job, run in self._runs.items():
            if (replica := run.replica) is not None:
                own = state.jobs[job]
                nodes = state.resources.by_id
                alone = all(len(nodes[node].holders[gpu]) == 1 for node, gpus in own.slots for gpu in gpus)
                replica.share = own.share.limit if alone else own.share.request

    def figures(self) -> dict[str, ServiceFigures]:
        return {name: served.figures() for name, served in self.by_name.items()}


class _Run:
    """A run of a replica. It joins the pool of its service when it is ready."""

    __slots__ = ("number", "replica", "served", "started_at")

    def __init__(self, served: _Served, number: int, started_at: Seconds) -> None:
        self.served, self.number, self.started_at = served, number, started_at
        self.replica: Replica | None = None

    def get_ready(self, now: Seconds) -> None:
        pool = self.served.pool
        pool.advance(now)
        self.replica = pool.add(ready_s=now)
        self.replica.ordered_s = self.started_at

    def end(self, now: Seconds) -> None:
        pool = self.served.pool
        pool.advance(now)
        if self.replica is not None:
            pool.end(self.replica)
        else:
            self.served.unready_s += now - self.started_at


class _Served:
    """One service: its requests, its replicas and its autoscaler."""

    def __init__(self, workload: ServiceWorkload) -> None:
        self.workload = workload
        self.pool = ReplicaPool(workload.simulated, workload.arrivals)
        self.starts = self._actions = 0
        self.unready_s = 0.0
        """Seconds of replicas that ended before they were ready."""
        self.closed = False
        """True after the end of its workload."""
        self._state, self._capacity = ScaleState(workload.scaler.begin()), LearnedCapacity()
        self._series = Series()
        self._deployed = False
        self._load: Load | None = None

    @property
    def over(self) -> bool:
        return self.closed and self.pool.finished

    def advance(self, now: Seconds) -> list[Event]:
        """Answer requests up to now; return the deployment at the beginning, and the end after the last answer."""
        self.pool.advance(now)
        if not self._deployed:
            self._deployed = True
            return [Deployed(now, self.workload.service)]
        if self.closed or now < ceil(self.workload.arrivals.horizon_s) or not self.pool.finished:
            return []
        self.closed = True
        return [Undeployed(now, self.workload.service.name)]

    def wish(self, replicas: int, ready: int) -> Resize:
        """Return what the autoscaler wants, given the replicas that serve or start."""
        simulated = self.workload.simulated
        load = self.pool.load()._replace(replicas=replicas, ready=ready)
        self._capacity = self._capacity.learn(
            self.pool.completed_last / TICK_S, ready, saturated=self.pool.saturated and ready > 0
        )
        load = load._replace(capacity=self._capacity.requests_per_s(simulated.profiled or simulated.throughput))
        self._series.add(load)
        self._state, wish = decide(self.workload.scaler, self._state, load, simulated.bounds)
        self._actions += wish.replicas != replicas
        inputs = (("arrivals", load.arrivals), ("queued", float(load.queued)), ("capacity", load.capacity))
        return Resize(self.workload.service.name, wish.replicas, wish.why, inputs)

    def figures(self) -> ServiceFigures:
        simulated = self.workload.simulated
        capacity = self._capacity.requests_per_s(simulated.profiled or simulated.throughput)
        found = figures_of(self.pool, simulated, self.workload.arrivals, self._actions, capacity, self._series)
        found.cold_starts = self.starts
        found.replica_s += self.unready_s
        return found
