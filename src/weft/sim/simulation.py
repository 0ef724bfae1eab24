"""Simulations: from a trace, a cluster and a policy to the journal and the final state."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Literal

from weft.history.journal.memory import MemoryJournal
from weft.model import Decision, Event, Fact, Node, Seconds, Team
from weft.scheduling.core.ports import Policy
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.state import State
from weft.scheduling.plugins import registry
from weft.scheduling.plugins.errors import attribute_errors
from weft.scheduling.weaving.pace import Pace
from weft.scheduling.weaving.rates import Contention, Order, Rates, pacing
from weft.sim.costs.muri import QUIRKS, MuriCosts, Quirks
from weft.sim.costs.real import CHECKPOINT_INTERVAL_S, RealCosts
from weft.sim.costs.speed import Speed
from weft.sim.engine import Costs, Engine
from weft.sim.faults.estimates import make_estimates
from weft.sim.faults.failures import Crashes, Faults
from weft.sim.faults.uncertainty import CERTAIN, Uncertainty
from weft.sim.serving.occupancy import Occupancy, measure_occupancy
from weft.sim.serving.run import ServiceFigures
from weft.sim.serving.services import SimulatedServices
from weft.sim.serving.workload import ServiceWorkload
from weft.sim.serving_engine import ServingEngine
from weft.sim.teams import TeamWatch
from weft.sim.traces.trace import TraceJob

Model = Literal["real", "muri"]


@dataclass(frozen=True)
class Setting:
    """The parameters of a simulation."""

    nodes: Sequence[Node]
    jobs: Sequence[TraceJob]
    policy: str | Policy = "fifo"
    """A name with options, or a policy object."""
    placement: str | None = None
    """None: the default of the policy."""
    model: Model = "real"
    checkpoint_interval_s: float = CHECKPOINT_INTERVAL_S
    interval_s: float | None = None
    """The least time between two plans; None: as the policy asks, and in Muri's model at every event."""
    resort: bool = False
    check_keys: bool = False
    """Check after each instant that no key of a waiting job has changed: it takes time for each waiting job."""
    seed: int = 0
    """The seed of all random draws; each kind of uncertainty has a separate stream."""
    uncertainty: Uncertainty = CERTAIN
    services: Sequence[ServiceWorkload] = ()
    """Services next to the training jobs."""
    order: Order | None = None
    """The order in which members of weaves take turns; None: the policy's: fair, and slots in Muri's model."""
    contention: Contention | None = None
    """The slowdown of members by each other otherwise; None: the policy's: Muri's factors in slots, else none."""
    teams: Sequence[Team] = ()
    """The teams that share the GPUs; the jobs say to which they belong."""


@dataclass(frozen=True)
class Outcome:
    """The result of a simulation."""

    scheduler: Scheduler
    journal: MemoryJournal
    cpu_s: float
    services: Mapping[str, ServiceFigures] = field(default_factory=dict)
    """The figures of services by name."""
    occupancy: Occupancy | None = None
    """The use of the GPUs over time; None: no services."""
    teams: TeamWatch | None = None
    """The figures of teams; None: no teams."""

    @property
    def state(self) -> State:
        return self.scheduler.state


Progress = Callable[[int], None]
"""Called with the number of ended jobs."""


def simulate(setting: Setting, *, until: Seconds = float("inf"), progress: Progress | None = None) -> Outcome:
    """Run the trace to its end, or up to and including the instant `until`. Keep every fact in a journal in memory."""
    scheduler, engine = prepare(setting)
    services = engine.services if isinstance(engine, ServingEngine) else None
    facts: list[Fact] = []
    watch = TeamWatch() if setting.teams else None
    with _rare_garbage_collection(), attribute_errors(scheduler.policy, scheduler.placement, scheduler):
        started = time.process_time()
        for events in engine.instants():
            if events and events[-1].at > until:
                break
            if watch is not None and events and events[0].at > scheduler.state.now:
                watch.observe(scheduler, events[0].at)
            facts += advance(scheduler, engine, events)
            if setting.check_keys:
                scheduler.check_keys()
            if progress is not None:
                progress(len(scheduler.state.ended))
        journal = MemoryJournal(*facts)
        cpu_s = time.process_time() - started
    if services is None:
        return Outcome(scheduler, journal, cpu_s, teams=watch)
    return Outcome(scheduler, journal, cpu_s, services.figures(), measure_occupancy(facts), watch)


def advance(scheduler: Scheduler, engine: Engine, events: Sequence[Event]) -> list[Fact]:
    """Let the events of one instant of the engine happen, and return them with the decisions that follow."""
    execute = engine.execute
    decisions = scheduler.step(*events) if events else []
    facts: list[Fact] = [*events, *decisions]
    for decision in decisions:
        execute(decision)
    if isinstance(engine, ServingEngine) and engine.services.ticked:
        facts += _resize(scheduler, engine.services, execute)
    return facts


def _resize(scheduler: Scheduler, services: SimulatedServices, execute: Callable[[Decision], None]) -> list[Decision]:
    """Let the autoscalers decide after a tick; return the decisions that follow."""
    services.ticked = False
    found: list[Decision] = []
    for wish in services.resizes(scheduler.state):
        decisions = scheduler.resize(services.now, wish.service, wish.replicas, wish.why, wish.inputs)
        for decision in decisions:
            execute(decision)
        found += decisions
    return found


def prepare(
    setting: Setting, *, faults: Faults | None = None, crashes: Crashes | None = None
) -> tuple[Scheduler, Engine]:
    """Return the scheduler of a setting and the engine that drives it. `faults` and `crashes` replace the setting's."""
    policy, muri = _policy(setting), setting.model == "muri"
    placement = registry.load_placement(placement_of(setting))
    with attribute_errors(policy, placement):
        interval_s = 0.0 if muri and setting.interval_s is None else setting.interval_s
        scheduler = Scheduler(policy, placement, repack=muri, resort=setting.resort, interval_s=interval_s)
    return scheduler, _engine(setting, policy, scheduler.state, faults or _faults(setting), crashes)


def _engine(setting: Setting, policy: Policy, state: State, faults: Faults, crashes: Crashes | None) -> Engine:
    uncertainty, seed = setting.uncertainty, setting.seed
    estimates, crashes = make_estimates(uncertainty.estimates, seed), crashes or Crashes(seed, uncertainty.crash_rate)
    switches = {node.id: node.switch for node in setting.nodes}
    speed = Speed(switches, _pace(setting, policy), policy.oversubscription > 1 or bool(setting.services))
    jobs = {job.job.id: job for job in setting.jobs}
    costs: Costs
    if setting.model == "muri":
        costs = MuriCosts(jobs, speed, _quirks(setting), estimates, crashes)
    else:
        costs = real = RealCosts(jobs, speed, setting.checkpoint_interval_s, estimates, crashes)
        if setting.services:
            services = SimulatedServices(setting.services)
            return ServingEngine(
                setting.nodes, setting.jobs, real, estimates, faults, setting.teams, services=services, state=state
            )
    return Engine(setting.nodes, setting.jobs, costs, estimates, faults, setting.teams)


def _faults(setting: Setting) -> Faults:
    uncertainty = setting.uncertainty
    return (
        Faults()
        if uncertainty.mtbf_s is None
        else Faults(setting.nodes, setting.seed, uncertainty.mtbf_s, uncertainty.repair_s)
    )


def placement_of(setting: Setting) -> str:
    """Return the name of the setting's placement, or the default of its policy."""
    if setting.placement is not None:
        return setting.placement
    return _quirks(setting).placement if setting.model == "muri" else _policy(setting).placement


def _policy(setting: Setting) -> Policy:
    policy = registry.load_policy(setting.policy) if isinstance(setting.policy, str) else setting.policy
    if not policy.weaves or not is_dataclass(policy):
        return policy
    options = {each.name for each in fields(policy)}
    order: str | None = setting.order
    if order is None and setting.model == "muri" and getattr(policy, "order", "") == "auto":
        order = "slots"
    given = {"order": order, "contention": setting.contention}
    changed = {name: value for name, value in given.items() if value is not None and name in options}
    return replace(policy, **changed) if changed else policy


def pace_of(setting: Setting) -> Pace | Rates:
    """Return how fast the weaves of the setting's policy are."""
    return _pace(setting, _policy(setting))


def _pace(setting: Setting, policy: Policy) -> Pace | Rates:
    """Return how fast the weaves of a policy are: as the policy believes, if it says so."""
    known: Pace | Rates | None = getattr(policy, "pace", None)
    if known is not None:
        return known
    order = setting.order or ("slots" if setting.model == "muri" else "fair")
    contention = setting.contention or ("muri" if order == "slots" else "none")
    return pacing(order, contention, ordering="best", matched=True)


def _quirks(setting: Setting) -> Quirks:
    name = registry.resolve_alias(setting.policy).partition(":")[0] if isinstance(setting.policy, str) else ""
    return QUIRKS.get(name, Quirks())


@contextmanager
def _rare_garbage_collection() -> Iterator[None]:
    """Collect garbage rarely: facts live to the end, and walking them again and again costs 15 % of the time."""
    threshold = gc.get_threshold()
    gc.collect(1)  # a full collection can take longer than a small simulation
    gc.freeze()
    gc.set_threshold(200_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()
