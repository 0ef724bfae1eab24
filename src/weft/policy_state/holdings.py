"""Who holds GPUs since when. Runs end as told, or untold, because all of their nodes are gone."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.model import Exited, Fact, JobId, JobSnapshot, NodeId, NodeLost, Seconds, Start


@dataclass(slots=True)
class Holding:
    """A run that holds GPUs."""

    since: Seconds
    nodes: set[NodeId]


@dataclass
class Holdings:
    open: dict[JobId, Holding] = field(default_factory=dict)
    spent_s: dict[JobId, float] = field(default_factory=dict)
    """How long each job's earlier runs held theirs."""

    def note(self, fact: Fact) -> list[JobId]:
        """Takes up a fact; returns the jobs whose run is over with it."""
        if isinstance(fact, Start):
            over = self._close(fact.job, fact.at)
            self.open[fact.job] = Holding(fact.at, {node for node, _ in fact.slots})
            return over
        if isinstance(fact, Exited):
            return self._close(fact.job, fact.at)
        if isinstance(fact, NodeLost):
            return self._lose(fact.node, fact.at)
        if isinstance(fact, JobSnapshot):
            self.spent_s[fact.job.id] = fact.attained_s
            if fact.slots:
                self.open[fact.job.id] = Holding(fact.started_at, {node for node, _ in fact.slots})
        return []

    def _lose(self, node: NodeId, at: Seconds) -> list[JobId]:
        """A run whose last node is gone is over; others are when they exit."""
        over: list[JobId] = []
        for job, spell in list(self.open.items()):
            spell.nodes.discard(node)
            if not spell.nodes:
                over += self._close(job, at)
        return over

    def _close(self, job: JobId, at: Seconds) -> list[JobId]:
        spell = self.open.pop(job, None)
        if spell is None:
            return []
        self.spent_s[job] = self.spent_s.get(job, 0.0) + at - spell.since
        return [job]
