"""A scheduler with the state of a journal: replayed at once before the server serves, in slices while it does."""

from __future__ import annotations

import gc
from itertools import islice
from typing import Final

from weft.core.queue.protection import Protection
from weft.core.scheduler import Scheduler
from weft.errors import JournalError
from weft.journal import Journal
from weft.plugins import registry
from weft.server.process.slices import Steps
from weft.server.settings import Settings

SLICE_FACTS: Final = 100
MAX_ATTEMPTS: Final = 3
"""A replay begins again if the journal is compacted meanwhile."""


def create_scheduler(settings: Settings, policy_name: str) -> Scheduler:
    """Return a scheduler that knows no facts yet."""
    policy = registry.load_policy(policy_name)
    placement = registry.load_placement(settings.placement or policy.placement)
    protection = Protection(settings.min_run_s, settings.max_preemptions)
    return Scheduler(policy, placement, protection=protection, interval_s=settings.interval_s or None)


def replay(scheduler: Scheduler, journal: Journal) -> None:
    """Replay a journal without the garbage collector: the objects stay, and scanning them would take a quarter of the
    time."""
    gc.disable()
    try:
        scheduler.replay(journal.read())
    finally:
        gc.enable()
        gc.freeze()


def prepare_scheduler(settings: Settings, journal: Journal) -> Steps[Scheduler]:
    """Return a scheduler with all facts of a journal that grows meanwhile. Use it in the turn that returns it."""
    for attempt in range(1, MAX_ATTEMPTS + 1):
        scheduler = create_scheduler(settings, settings.policy)
        base = journal.base
        try:
            yield from _follow(scheduler, journal)
        except JournalError:
            if journal.base == base or attempt == MAX_ATTEMPTS:
                raise
        else:
            return scheduler
    raise AssertionError("the last attempt returns or raises")


def _follow(scheduler: Scheduler, journal: Journal) -> Steps[None]:
    """Replay what the journal has, then what was added meanwhile, until nothing is missing."""
    position = 0
    while position < len(journal):
        if position and journal.base > position:
            raise JournalError(f"{journal.url}: a snapshot has replaced the facts after position {position}")
        facts, position = journal.read(position), len(journal)
        while some := list(islice(facts, SLICE_FACTS)):
            scheduler.replay(some, more=True)
            gc.freeze()  # the objects stay: the collector need not look at them
            yield
    scheduler.replay(())


def dispose_scheduler(scheduler: Scheduler) -> Steps[None]:
    """Free the memory of a scheduler that is not used any more, a few jobs at a time."""
    jobs = list(scheduler.state.jobs.values())
    for part in (scheduler.planner, scheduler.order, scheduler.state, scheduler):
        vars(part).clear()  # they refer to each other
    while jobs:
        del jobs[-SLICE_FACTS:]
        yield
