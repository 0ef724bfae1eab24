"""Facts about the scheduler itself: wakes, plans, reservations and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.model import AdminAction, Alarm, KeyChanged, Planned, Reserve, Wake
from weft.model.status import ENDED

if TYPE_CHECKING:
    from weft.scheduling.core.state.state import State


def wake(state: State, _fact: Wake) -> bool:
    state.news = True
    return True


def alarm(_state: State, _fact: Alarm) -> bool:
    return True


def admin_action(_state: State, _fact: AdminAction) -> bool:
    return True


def planned(state: State, fact: Planned) -> bool:
    state.planned_at, state.pending = fact.at, fact.pending
    return True


def reserve(state: State, fact: Reserve) -> bool:
    job = state.waiting.get(fact.job)
    if job is None:
        return False
    job.reserved = fact.slots
    return True


def key_changed(state: State, fact: KeyChanged) -> bool:
    job = state.jobs.get(fact.job)
    if job is None or job.status in ENDED:
        return False
    job.key, job.key_changed_at, job.tie_breaker = fact.key, fact.at, state.next_tail_tie()
    state.resources.touch(job.slots)
    state.stepped.append(job)
    state.touched[job.id] = job
    return True
