"""The runs that hold GPUs, and since when. A run ends when it exits, or when all of its nodes are lost."""

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
    """Seconds for which each job's earlier runs held their GPUs."""

    def apply(self, fact: Fact) -> list[JobId]:
        """Apply a fact, and return the jobs whose run it ends."""
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
        """End the runs whose last node is lost; other runs end when they exit."""
        over: list[JobId] = []
        for job, holding in list(self.open.items()):
            holding.nodes.discard(node)
            if not holding.nodes:
                over += self._close(job, at)
        return over

    def _close(self, job: JobId, at: Seconds) -> list[JobId]:
        holding = self.open.pop(job, None)
        if holding is None:
            return []
        self.spent_s[job] = self.spent_s.get(job, 0.0) + at - holding.since
        return [job]
