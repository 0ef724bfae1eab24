"""The snapshot that replaces facts when a journal is compacted."""

from __future__ import annotations

from collections.abc import Iterable

from weft.core.state.apply.snapshots import snapshot
from weft.core.state.state import State
from weft.model import Alarm, Fact


def summary(facts: Iterable[Fact]) -> list[Fact] | None:
    """Return a snapshot of the state after these facts; None at an instant when a key has just changed."""
    state, due = State(), None
    for fact in facts:
        state.apply(fact)
        if type(fact) is Alarm:
            due = fact.due
    return None if state.stepped else [*snapshot(state), Alarm(state.now, due)]
