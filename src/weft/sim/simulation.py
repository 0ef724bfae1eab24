"""One simulation: a trace, a cluster and a policy in; the journal and the final state out."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from weft import registry
from weft.core.scheduler import Scheduler
from weft.core.state import State
from weft.journal.memory import MemoryJournal
from weft.model import Node, Seconds
from weft.sim.engine import Costs, Engine
from weft.sim.muri import QUIRKS, MuriCosts, Quirks
from weft.sim.real import CHECKPOINT_INTERVAL_S, RealCosts
from weft.sim.speed import Speed
from weft.sim.trace import TraceJob
from weft.weaving.pace import Pace

Model = Literal["real", "muri"]


@dataclass(frozen=True)
class Setting:
    """What to simulate."""

    nodes: Sequence[Node]
    jobs: Sequence[TraceJob]
    policy: str = "fifo"
    placement: str | None = None
    """None: the one the policy brings along."""
    model: Model = "real"
    checkpoint_interval_s: float = CHECKPOINT_INTERVAL_S
    resort: bool = False


@dataclass(frozen=True)
class Outcome:
    scheduler: Scheduler
    journal: MemoryJournal
    cpu_s: float

    @property
    def state(self) -> State:
        return self.scheduler.state


Progress = Callable[[int], None]


def simulate(setting: Setting, *, until: Seconds = float("inf"), progress: Progress | None = None) -> Outcome:
    """Runs the trace to its end, or through an instant, with every fact applied and journalled in memory."""
    scheduler, costs = prepare(setting)
    engine = Engine(setting.nodes, setting.jobs, costs)
    journal = MemoryJournal()
    with _little_garbage():
        started = time.process_time()
        for events in engine.instants():
            if events[-1].at > until:
                break
            journal.append(*events)
            decisions = scheduler.step(*events)
            journal.append(*decisions)
            for decision in decisions:
                engine.execute(decision)
            if progress is not None:
                progress(len(scheduler.state.ended))
        cpu_s = time.process_time() - started
    return Outcome(scheduler, journal, cpu_s)


def prepare(setting: Setting) -> tuple[Scheduler, Costs]:
    """The scheduler and the costs of a setting."""
    policy = registry.policy(setting.policy)
    name = registry.canonical(setting.policy).partition(":")[0]
    quirks = QUIRKS.get(name, Quirks())
    muri = setting.model == "muri"
    placement = registry.placement(setting.placement or (quirks.placement if muri else policy.placement))
    switches = {node.id: node.switch for node in setting.nodes}
    sharing = policy.oversubscription > 1
    speed = Speed(switches, getattr(policy, "pace", Pace()), sharing)
    jobs = {job.job.id: job for job in setting.jobs}
    costs: Costs = MuriCosts(jobs, speed, quirks) if muri else RealCosts(jobs, speed, setting.checkpoint_interval_s)
    scheduler = Scheduler(policy, placement, repack=muri, resort=setting.resort, interval_s=0.0 if muri else None)
    return scheduler, costs


@contextmanager
def _little_garbage() -> Iterator[None]:
    """Facts live to the end: collecting them again and again costs 15 %."""
    threshold = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()
