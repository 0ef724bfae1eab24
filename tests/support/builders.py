"""A small language for tests: nodes, jobs, a scheduler at work, a simulation step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.model import (
    Alarm,
    Cancelled,
    Decision,
    Event,
    Exited,
    Fact,
    Gpu,
    Held,
    Job,
    Node,
    NodeJoined,
    NodeLost,
    Outcome,
    Profile,
    Progressed,
    Released,
    Share,
    Slots,
    Start,
    Started,
    Stop,
    Submitted,
    Wake,
)
from weft.scheduling.core.ports import Policy
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.scheduling.plugins import registry
from weft.sim.simulation import Setting, prepare
from weft.sim.traces.trace import TraceJob

# ---- nouns


def node(id: str = "n0", gpus: int = 8, *, model: str = "", memory_mb: int = 32768, **rest: Any) -> Node:
    return Node(id, (Gpu(model, memory_mb),) * gpus, **rest)


def grid(nodes: int, gpus: int) -> tuple[Node, ...]:
    return tuple(node(f"n{at}", gpus, switch="s0") for at in range(nodes))


def part(k: int) -> Share:
    """The share of a job that lets k of its kind live on a GPU."""
    return Share(1 / k, 1 / k)


def profile(data: float, gpu: float, network: float, *, solo: float | None = None, start: float = 0.0) -> Profile:
    """Stage times; alone they follow each other unless `solo` says otherwise."""
    name = f"m{data:g}-{gpu:g}-{network:g}"
    return Profile(name, data + gpu + network if solo is None else solo, data, gpu, network, start)


def traced(
    id: str, submit_s: float, iterations: int, *, gpus: int = 1, profile: Profile | None = None, **rest: Any
) -> TraceJob:
    """A job of a trace: this many iterations, of a second each unless its profile says otherwise."""
    shape = profile or Profile("m", 1.0, 0.25, 0.5, 0.25)
    work_s = iterations * shape.iteration_s
    job = Job(id, gpus, declared_s=work_s, iterations=iterations, profile=shape, **rest)
    return TraceJob(submit_s, job, work_s)


# ---- what was decided


def starts(decisions: Iterable[Decision]) -> dict[str, Slots]:
    return {d.job: d.slots for d in decisions if isinstance(d, Start)}


def stops(decisions: Iterable[Decision]) -> dict[str, str]:
    return {d.job: d.why for d in decisions if isinstance(d, Stop)}


def acts(decisions: Iterable[Decision]) -> list[Decision]:
    """Starts and stops."""
    return [d for d in decisions if isinstance(d, Start | Stop)]


# ---- a scheduler at work


class Rig:
    """A scheduler, a clock, and everything that was said; events go in by name, decisions come out."""

    def __init__(
        self, policy: str | Policy = "fifo", nodes: Sequence[Node] = (), *, placement: str = "packed", **options: Any
    ) -> None:
        self.policy = registry.load_policy(policy) if isinstance(policy, str) else policy
        self.placement, self.options = registry.load_placement(placement), {"interval_s": 0.0, **options}
        self.scheduler = self.fresh()
        self.facts: list[Fact] = []
        self.now = 0.0
        self.alarm: float | None = None
        if nodes:
            self.join(*nodes)

    def fresh(self) -> Scheduler:
        """Another scheduler like this one, which knows nothing yet."""
        return Scheduler(self.policy, self.placement, **self.options)

    @property
    def state(self) -> State:
        return self.scheduler.state

    def job(self, id: str) -> JobState:
        return self.state.jobs[id]

    @property
    def active(self) -> dict[str, Slots]:
        return {job.id: job.slots for job in self.state.active.values()}

    def tell(self, *events: Event) -> list[Decision]:
        decisions = list(self.scheduler.step(*events))
        self.facts += [*events, *decisions]
        for decision in decisions:
            if isinstance(decision, Alarm):
                self.alarm = decision.due
        return decisions

    def resize(self, service: str, replicas: int) -> list[Decision]:
        """Set the number of replicas of a service, as an autoscaler does."""
        decisions = list(self.scheduler.resize(self.now, service, replicas))
        self.facts += decisions
        self.alarm = self.scheduler.alarm
        return decisions

    # events

    def join(self, *nodes: Node) -> list[Decision]:
        return self.tell(*(NodeJoined(self.now, each) for each in nodes))

    def lose(self, *nodes: str) -> list[Decision]:
        return self.tell(*(NodeLost(self.now, each) for each in nodes))

    def submit(self, *jobs: Job) -> list[Decision]:
        return self.tell(*(Submitted(self.now, each) for each in jobs))

    def cancel(self, id: str) -> list[Decision]:
        return self.tell(Cancelled(self.now, id))

    def hold(self, id: str) -> list[Decision]:
        return self.tell(Held(self.now, id))

    def release(self, id: str) -> list[Decision]:
        return self.tell(Released(self.now, id))

    def begin(self, *ids: str, rate: float = 1.0) -> list[Decision]:
        return self.tell(*(Started(self.now, id, self.job(id).run, rate) for id in ids))

    def progress(self, id: str, remaining_s: float, rate: float = 1.0) -> list[Decision]:
        return self.tell(Progressed(self.now, id, self.job(id).run, remaining_s, rate))

    def exit(self, id: str, how: Outcome = "done", *, run: int | None = None) -> list[Decision]:
        return self.tell(Exited(self.now, id, self.job(id).run if run is None else run, how))

    def leave(self, *ids: str) -> list[Decision]:
        """Runs that were told to stop have stopped."""
        return self.tell(*(Exited(self.now, id, self.job(id).run, "stopped") for id in ids))

    # time, and everybody doing as told

    def later(self, seconds: float) -> list[Decision]:
        """Lets time pass; the alarm goes off on the way."""
        until, decisions = self.now + seconds, list[Decision]()
        while self.alarm is not None and self.alarm <= until:
            self.now, self.alarm = max(self.now, self.alarm), None
            decisions += self.tell(Wake(self.now))
        self.now = until
        return decisions

    def acknowledge(self) -> list[Decision]:
        """Let the runs of Start decisions begin, and those of Stop decisions exit."""
        events: list[Event] = []
        for job in self.state.active.values():
            if job.status == "starting":
                events.append(Started(self.now, job.id, job.run))
            elif job.status == "stopping":
                events.append(Exited(self.now, job.id, job.run, "stopped"))
        return self.tell(*events) if events else []

    def settle(self, rounds: int = 50) -> None:
        """Acknowledges until nothing more is decided at this instant."""
        for _ in range(rounds):
            self.acknowledge()
            if all(job.status == "running" for job in self.state.active.values()):
                return
        raise AssertionError(f"{rounds} rounds at {self.now} s without end")


# ---- a simulation, step by step

Step = tuple[list[Event], list[Decision]]


@dataclass
class Recording:
    """The events given to the scheduler, step by step, and its decisions."""

    setting: Setting
    scheduler: Scheduler
    steps: list[Step] = field(default_factory=list)

    @property
    def state(self) -> State:
        return self.scheduler.state

    @property
    def facts(self) -> list[Fact]:
        return self.facts_of(self.steps)

    @staticmethod
    def facts_of(steps: Sequence[Step]) -> list[Fact]:
        return [fact for step in steps for facts in step for fact in facts]

    def ends(self) -> dict[str, float | None]:
        return {id: job.ended_at for id, job in self.state.jobs.items()}

    def first_starts(self) -> dict[str, float | None]:
        return {id: job.first_start for id, job in self.state.jobs.items()}


def record(nodes: Sequence[Node], jobs: Sequence[TraceJob], policy: str, **rest: Any) -> Recording:
    """Runs a trace to its end."""
    setting = Setting(nodes, jobs, policy, **rest)
    scheduler, engine = prepare(setting)
    recording = Recording(setting, scheduler)
    for events in engine.instants():
        decisions = list(scheduler.step(*events))
        recording.steps.append((list(events), decisions))
        for decision in decisions:
            engine.execute(decision)
    return recording
