"""A gang: the parts of a run, one on each of its nodes.

The run has started when all parts have. A part that exits with 0 waits for the others. A part that fails ends the
others; once all are gone, the run has ended as the first failed part did. A run on one node is a gang of one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

from weft.access.wire.runs import TORN
from weft.model import Exited, Job, JobId, NodeId, Seconds, Slots, Task
from weft.model.slots import nodes_of
from weft.node.engine.events import RunExited
from weft.node.engine.exit_rules import FIRST_DELAY_S, MAX_DELAY_S, exit_event, outcome
from weft.node.engine.rendezvous import detect_launcher
from weft.node.engine.shim.run_files import SAVED_AT_LIMIT
from weft.scheduling.core.state.job import JobState

NOT_BEGUN: Final = frozenset({"never-started", "port-taken"})
"""Reasons why a run never began. They may persist, so each try waits longer than the last."""


def is_clean(end: RunExited) -> bool:
    """Return whether the part did its work."""
    return outcome(end) == "done"


def parts_of(job: Job, slots: Slots) -> tuple[NodeId, ...]:
    """Return the nodes on which parts of a run on these GPUs are started. With mpirun it is the first alone: the others
    only reserve their GPUs."""
    nodes = nodes_of(slots)
    return nodes[:1] if detect_launcher(job.command) == "mpi" else nodes


@dataclass(slots=True)
class Gang:
    """The reports of agents about the parts of one run. Agents report again after a restart: no end is confirmed
    before the end of the whole run is on disk."""

    job: JobId
    run: int
    nodes: tuple[NodeId, ...]
    started: set[NodeId] = field(default_factory=set)
    ends: dict[NodeId, RunExited] = field(default_factory=dict)
    """The ends of parts, in the order of the reports."""
    lost: set[NodeId] = field(default_factory=set)
    """Nodes that the scheduler has given up."""
    missed: dict[NodeId, int] = field(default_factory=dict)
    """The number of heartbeats in a row that left out a part that had started, by node."""
    start_reported: bool = False
    ended: bool = False
    """The exit of the run has been reported to the state."""

    @property
    def has_failed(self) -> bool:
        """True once a part has failed. The others must stop then."""
        return any(not is_clean(end) for end in self.ends.values())

    def unfinished(self) -> list[NodeId]:
        """Return the nodes of the parts that are not known to have ended."""
        return [node for node in self.nodes if node not in self.ends and node not in self.lost]

    def must_stop(self, job: JobState) -> bool:
        return job.status == "stopping" or self.has_failed

    def lost_all_nodes(self, job: JobState) -> bool:
        """Return whether the run was lost with all its nodes. The state knows that from the loss of the nodes."""
        return all(node in self.lost for node in nodes_of(job.placed))

    def all_started(self) -> bool:
        return all(node in self.started for node in self.nodes)

    def combined_exit(self, job: JobState, now: Seconds) -> Exited:
        """Return the exit of the run, once no part is left."""
        unclean = [node for node, end in self.ends.items() if not is_clean(end) and end.why != TORN]
        saved = (node for node in unclean if self.ends[node].why == SAVED_AT_LIMIT)  # one node saves for all of them
        failed = next(saved, next(iter(unclean), None))
        culprit = self.ends[failed] if failed is not None else None
        if culprit is None and not self.lost and all(map(is_clean, self.ends.values())):
            culprit = next(iter(self.ends.values()))
        if culprit is None:  # the part that failed was lost with its node
            return Exited(now, self.job, self.run, "lost", why="node-lost")
        task = job.job.task or Task()
        fact = exit_event(culprit, requeue_exits=task.requeue_exits, tries=job.delays)
        ends = self.ends.values()
        fact = replace(fact, cpu_s=sum(end.cpu_s for end in ends), rss_mb=max(end.max_rss_mb for end in ends))
        delay_s = fact.delay_s
        if fact.how == "lost" and fact.why in NOT_BEGUN and job.status != "stopping":
            delay_s = min(FIRST_DELAY_S * 2.0 ** min(job.delays, 60), MAX_DELAY_S)
        if failed is None or len(self.nodes) < 2:
            return replace(fact, at=now, delay_s=delay_s)
        return replace(fact, at=now, delay_s=delay_s, rank=self.nodes.index(failed), node=failed)


class Gangs:
    """The gangs of all present runs."""

    def __init__(self) -> None:
        self._gangs: dict[JobId, Gang] = {}

    def of(self, job: JobState) -> Gang:
        """Return the gang of a job's present run."""
        gang = self._gangs.get(job.id)
        if gang is None or gang.run != job.run:
            here = nodes_of(job.slots)
            parts = parts_of(job.job, job.placed)
            gang = self._gangs[job.id] = Gang(job.id, job.run, parts, lost={n for n in parts if n not in here})
        return gang

    def prune(self, active: Collection[JobId]) -> None:
        """Forget the gangs of jobs that are not active."""
        if len(self._gangs) > 2 * len(active) + 100:
            self._gangs = {job: self._gangs[job] for job in active if job in self._gangs}
