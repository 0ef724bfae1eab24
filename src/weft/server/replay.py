"""A scheduler with the state of a journal: replayed at once before the server serves, in slices while it does."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from weft.access.server.settings import Settings
from weft.errors import JournalError
from weft.history.journal import Journal
from weft.model import Fact
from weft.scheduling.core.queue.protection import Protection
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.plugins import registry
from weft.server.process.slices import Steps

SLICE_FACTS: Final = 100
MAX_ATTEMPTS: Final = 3
"""A replay begins again if the journal is compacted meanwhile."""


def create_scheduler(settings: Settings, policy_name: str) -> Scheduler:
    """Return a scheduler that knows no facts yet."""
    policy = registry.load_policy(policy_name)
    placement = registry.load_placement(settings.placement or policy.placement)
    protection = Protection(settings.min_run_s, settings.max_preemptions)
    return Scheduler(policy, placement, protection=protection, interval_s=settings.interval_s or None)


def replay(scheduler: Scheduler, journal: Journal, through: Callable[[Iterable[Fact]], Iterable[Fact]] = iter) -> None:
    """Replay a journal without the garbage collector: the objects stay, and scanning them would take a quarter of the
    time. `through` passes the facts on, and may read them."""
    gc.disable()
    try:
        scheduler.replay(through(journal.read()))
    finally:
        gc.enable()
        gc.freeze()


@dataclass
class Prepared:
    """A scheduler with the facts of a journal up to a position."""

    scheduler: Scheduler
    position: int = 0

    def catch_up(self, journal: Journal) -> Steps[Scheduler]:
        """Replay what the journal has more, until nothing is missing. Use the scheduler in the turn that returns it."""
        while self.position < len(journal):
            if self.position and journal.base > self.position:
                raise JournalError(f"{journal.url}: a snapshot has replaced the facts after position {self.position}")
            facts, self.position = journal.read(self.position), len(journal)
            while some := list(islice(facts, SLICE_FACTS)):
                self.scheduler.replay(some, more=True)
                gc.freeze()  # the objects stay: the collector need not look at them
                yield
        self.scheduler.replay(())
        return self.scheduler


def prepare_scheduler(settings: Settings, journal: Journal) -> Steps[Prepared]:
    """Return a scheduler with the facts of a journal that grows meanwhile. `catch_up` adds those that came since."""
    for attempt in range(1, MAX_ATTEMPTS + 1):
        prepared = Prepared(create_scheduler(settings, settings.policy))
        base = journal.base
        try:
            yield from prepared.catch_up(journal)
        except JournalError:
            if journal.base == base or attempt == MAX_ATTEMPTS:
                raise
        else:
            return prepared
    raise AssertionError("the last attempt returns or raises")


def dispose_scheduler(scheduler: Scheduler) -> Steps[None]:
    """Free the memory of a scheduler that is not used any more, a few jobs at a time."""
    jobs = list(scheduler.state.jobs.values())
    for part in (scheduler.planner, scheduler.order, scheduler.state, scheduler):
        vars(part).clear()  # they refer to each other
    while jobs:
        del jobs[-SLICE_FACTS:]
        yield
