"""The engine of a simulation with services: training as in `engine`, plus requests, replicas and autoscalers."""

from __future__ import annotations

from collections.abc import Sequence

from weft.model import Decision, DrainReplica, Event, Node, NodeLost, Seconds, Start, Stop, Team
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.sim.costs.real import RealCosts
from weft.sim.engine import Engine
from weft.sim.faults.estimates import Estimates
from weft.sim.faults.failures import Faults
from weft.sim.serving.services import SimulatedServices
from weft.sim.traces.trace import TraceJob


class ServingEngine(Engine):
    def __init__(
        self,
        nodes: Sequence[Node],
        jobs: Sequence[TraceJob],
        costs: RealCosts,
        estimates: Estimates,
        faults: Faults,
        teams: Sequence[Team] = (),
        *,
        services: SimulatedServices,
        state: State,
    ) -> None:
        super().__init__(nodes, jobs, costs, estimates, faults, teams)
        self._real, self.services, self._state = costs, services, state

    def execute(self, decision: Decision) -> None:
        job = self._state.jobs[decision.job] if isinstance(decision, Start | Stop | DrainReplica) else None
        if job is None or job.job.replica is None:
            super().execute(decision)
            return
        if isinstance(decision, Start):
            self._at_once += self._real.host(job.job, decision)
        elif isinstance(decision, Stop):
            self._at_once += self._real.unhost(job.id, decision.at)
        self._at_once += self.services.execute(decision, job)

    def _next(self) -> Seconds:
        return min(super()._next(), self.services.next_time())

    def _happen(self, now: Seconds) -> list[Event]:
        events = super()._happen(now)
        events += self.services.happen(now)
        return events

    def _fail(self, now: Seconds) -> list[Event]:
        events = super()._fail(now)
        for event in [event for event in events if isinstance(event, NodeLost)]:
            on_node = [r for r in self._replicas() if r.slots and all(node == event.node for node, _ in r.slots)]
            self.services.lose(on_node, now)
            for replica in on_node:
                events += self._real.unhost(replica.id, now)
        return events

    def _replicas(self) -> list[JobState]:
        return [job for job in self._state.active.values() if job.job.replica is not None]
