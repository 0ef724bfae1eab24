"""A run and its parts: one on each of its nodes. What becomes of the parts adds up to what becomes of the run.

It has started when all parts have. A part that ends with 0 waits for the others; one that ends otherwise takes the
others with it, and the run has ended as the first of these did, once all are gone. A run on one node is a gang of one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

from weft.core.state.job import JobState
from weft.engines.process.events import RunExited
from weft.engines.process.exit_rules import FIRST_DELAY_S, MAX_DELAY_S, exit_event, outcome
from weft.engines.process.rendezvous import detect_launcher
from weft.model import Exited, JobId, NodeId, Seconds, Slots, Task
from weft.wire.runs import TORN

NOT_BEGUN: Final = frozenset({"never-started", "port-taken"})
"""Whatever kept it from starting may keep it again: it is tried less and less often."""


def is_clean(end: RunExited) -> bool:
    """It did what it was to do."""
    return outcome(end) == "done"


def nodes_of(slots: Slots) -> tuple[NodeId, ...]:
    """In rank order."""
    return tuple(dict.fromkeys(node for node, _ in slots))


def parts_of(job: JobState) -> tuple[NodeId, ...]:
    """The nodes on which something of its present run is started. With mpirun that is the first: the others only keep
    their GPUs for it."""
    nodes = nodes_of(job.placed)
    return nodes[:1] if detect_launcher(job.job.command) == "mpi" else nodes


@dataclass(slots=True)
class Gang:
    """What was heard of the parts of one run. All of it is heard again after a restart: nothing is confirmed before
    the end of the whole is on disk."""

    job: JobId
    run: int
    nodes: tuple[NodeId, ...]
    started: set[NodeId] = field(default_factory=set)
    ends: dict[NodeId, RunExited] = field(default_factory=dict)
    """In the order in which they were heard of."""
    lost: set[NodeId] = field(default_factory=set)
    """Nodes that were given up."""
    unsaid: dict[NodeId, int] = field(default_factory=dict)
    """How many heartbeats in a row said nothing of a part that had started."""
    said_started: bool = False
    ended: bool = False
    """Its end has been said."""

    @property
    def torn(self) -> bool:
        """One part has failed: the others are to go."""
        return any(not is_clean(end) for end in self.ends.values())

    def left(self) -> list[NodeId]:
        """The parts that have not ended, as far as is known."""
        return [node for node in self.nodes if node not in self.ends and node not in self.lost]

    def is_to_go(self, job: JobState) -> bool:
        return job.status == "stopping" or self.torn

    def lost_whole(self, job: JobState) -> bool:
        """It went with its nodes, all of them: that is known without a word."""
        return all(node in self.lost for node in nodes_of(job.placed))

    def all_started(self) -> bool:
        return all(node in self.started for node in self.nodes)

    def verdict(self, job: JobState, now: Seconds) -> Exited:
        """What the ends add up to, once none is left."""
        culprit = next((end for end in self.ends.values() if not is_clean(end) and end.why != TORN), None)
        if culprit is None and not self.lost and all(map(is_clean, self.ends.values())):
            culprit = next(iter(self.ends.values()))
        if culprit is None:  # whoever made it fail went with its node
            return Exited(now, self.job, self.run, "lost", why="node-lost")
        task = job.job.task or Task()
        fact = exit_event(culprit, requeue_exits=task.requeue_exits, tries=job.delays)
        delay_s = fact.delay_s
        if fact.how == "lost" and fact.why in NOT_BEGUN and job.status != "stopping":
            delay_s = min(FIRST_DELAY_S * 2.0 ** min(job.delays, 60), MAX_DELAY_S)
        return replace(fact, at=now, delay_s=delay_s)


class Gangs:
    """Those of all present runs, as far as they are known."""

    def __init__(self) -> None:
        self._gangs: dict[JobId, Gang] = {}

    def of(self, job: JobState) -> Gang:
        """That of a job's present run."""
        gang = self._gangs.get(job.id)
        if gang is None or gang.run != job.run:
            here = nodes_of(job.slots)
            parts = parts_of(job)
            gang = self._gangs[job.id] = Gang(job.id, job.run, parts, lost={n for n in parts if n not in here})
        return gang

    def prune(self, active: Collection[JobId]) -> None:
        """Forgets those of jobs that have no run any more."""
        if len(self._gangs) > 2 * len(active) + 100:
            self._gangs = {job: self._gangs[job] for job in active if job in self._gangs}
