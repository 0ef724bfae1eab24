"""Which rows of a screen the facts so far have changed. Pure: facts in, names of rows out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from weft.model import Fact, JobId, NodeId
from weft.views.answers.changes import EventView
from weft.views.from_state.change_texts import describe
from weft.views.from_state.gpu_numbers import GpuNumbers

MAX_EVENTS: Final = 100
"""Events between two messages. A burst of submissions has thousands, which no person could read."""


@dataclass
class Changed:
    """Names of rows that have changed since the last message."""

    jobs: dict[JobId, None] = field(default_factory=dict)
    purged: list[JobId] = field(default_factory=list)
    nodes: dict[NodeId, None] = field(default_factory=dict)
    """Nodes with changes that concern all their GPUs."""
    events: list[EventView] = field(default_factory=list)
    missed_events: int = 0
    facts: int = 0


class ChangeTracker:
    def __init__(self, numbers: GpuNumbers) -> None:
        self._numbers, self._changed = numbers, Changed()

    def record(self, facts: Iterable[Fact]) -> None:
        changed = self._changed
        for fact in facts:
            changed.facts += 1
            job = getattr(fact, "job", None)
            if job is not None:
                changed.jobs[job if isinstance(job, str) else job.id] = None
            elif (node := getattr(fact, "node", None)) is not None:
                changed.nodes[node if isinstance(node, str) else node.id] = None
            elif (jobs := getattr(fact, "jobs", None)) and isinstance(jobs, tuple):
                changed.purged += jobs
            if (event := describe(fact, self._numbers)) is None:
                continue
            if len(changed.events) < MAX_EVENTS:
                changed.events.append(event)
            else:
                changed.missed_events += 1

    def take(self) -> Changed:
        """Return what has changed since the last call."""
        changed, self._changed = self._changed, Changed()
        return changed
