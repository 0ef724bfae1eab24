"""Services of a world: they are deployed and resized; their replicas get ready, drain and fail; in the end they go."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from clusters.head import Head
from clusters.mayhem import CHAOS_S
from clusters.timeline import Timeline
from weft.model import (
    Deployed,
    DrainReplica,
    Event,
    Job,
    Ready,
    ReplicaDrained,
    ScaleRule,
    Service,
    Share,
    Timeouts,
    Undeployed,
)

PLACEMENT = "holes:moves_per_minute=4"
PROBE_S = 3.0
MOST = 3


class Serving:
    """The actions of users, autoscalers and probes, seen from the scheduler of a world."""

    def __init__(self, time: Timeline, head: Head, seed: int) -> None:
        self._time, self._head, self._chance = time, head, Random(f"{seed}/services")
        self.ending = False
        self.services = [self._invent(name) for name in ("chat", "images", "search")]
        for service in self.services:
            self._until_done(Deployed, service)
        self._probe()

    def _invent(self, name: str) -> Service:
        request = self._chance.choice([0.2, 0.3, 0.45])
        template = Job(name, share=Share(request, request + 0.2), command=("serve",))
        scale = ScaleRule(min_replicas=self._chance.randint(0, 2), max_replicas=MOST)
        return Service(name, template, scale, timeouts=Timeouts(drain_s=20.0))

    def _until_done(self, make: Callable[..., Event], what: Service | str, done: bool = False) -> None:
        """Ask again until it is on disk: the scheduler may be down."""
        answered: list[bool] = []

        def ask() -> None:
            if not answered:
                if self._head.up:
                    self._head.ask(lambda now: ([make(now, what)], []), lambda: answered.append(True))
                self._time.after(3.0, ask)

        self._time.after(self._chance.uniform(0, 20) if not done else 0.0, ask)

    def end(self) -> None:
        """Undeploy all services: from then on all replicas drain and end."""
        self.ending = True
        for service in self.services:
            self._until_done(Undeployed, service.name, done=True)

    @property
    def gone(self) -> bool:
        return self.ending and not self._head.scheduler.state.services.by_name

    def _probe(self) -> None:
        """Probes find replicas ready or drained; loads change while things go wrong."""
        if self._head.up and not self._head.stalled:
            self._head.ask(lambda now: (self._heard(now), []))
            if self._time.now < CHAOS_S and self._chance.random() < 0.3:
                self._resize()
        if not self.gone:
            self._time.after(PROBE_S, self._probe)

    def _heard(self, now: float) -> list[Event]:
        events: list[Event] = []
        for job in self._head.scheduler.state.active.values():
            if job.job.replica is None or job.releasing or self._chance.random() < 0.4:
                continue
            if job.draining_since is not None:
                events.append(ReplicaDrained(now, job.id, job.run))
            elif job.status == "running" and job.ready_at is None:
                events.append(Ready(now, job.id, job.run, "127.0.0.1:1"))
        return events

    def _resize(self) -> None:
        """As the loop of the server does: the decisions are journalled, then carried out."""
        known = [each for each in self._head.scheduler.state.services.by_name.values() if not each.undeployed]
        if known:
            name = self._chance.choice(known).service.name
            self._head.resize(name, self._chance.randint(0, MOST))

    def check(self) -> None:
        """A replica is drained for its successor only while as many replicas serve as are wanted."""
        twin = self._head.fresh()
        for fact in self._head.disk:
            twin.fold(fact)
            if isinstance(fact, DrainReplica) and fact.why == "replaced":
                service = twin.state.services.of(twin.state.jobs[fact.job])
                assert service is None or len(service.ready()) >= service.wanted, f"{fact.job} was drained too early"
