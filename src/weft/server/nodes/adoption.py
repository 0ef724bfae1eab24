"""Adoption: a server whose journal lacks facts learns from its workers which runs they have.

While the scheduler is paused for that, workers describe the latest run of each job that they keep: its submission and
start, as they were journalled. A job that the journal does not have is submitted again under its number, and a run that
it does not have is decided as it is. From then on it is an ordinary run, also one that has ended meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from weft.access.wire.convert import pairs
from weft.access.wire.messages import RunRecord
from weft.errors import WeftError
from weft.model import Decision, Event, Job, JobId, NodeId, Resumed, Seconds, Start, Submitted
from weft.model.slots import nodes_of
from weft.model.status import ENDED
from weft.node.care.restore import read_record, recovered_job
from weft.node.engine.launch_spec import is_valid_job_id
from weft.scheduling.core.admission import check_job
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.state import State
from weft.server.nodes.gangs import parts_of
from weft.server.pause_reasons import RECOVERING
from weft.text import plural

RECOVERY_S: Final = 30.0
"""The seconds after the start of the server in which workers connect again and describe their runs."""
MAX_RECORDS: Final = 100_000
log = logging.getLogger(__name__)


@dataclass
class _Described:
    """A run as its nodes describe it."""

    job: Job
    start: Start
    ended: dict[NodeId, bool] = field(default_factory=dict)
    """For each node that has described it, whether the part there is over."""

    def start_at(self, now: Seconds) -> Start | None:
        """Return what to decide; None until all nodes of the run have described it. A run that is over gets no GPUs:
        others have them since."""
        if not self.ended.keys() >= set(parts_of(self.job, self.start.slots)):
            return None
        is_over = all(self.ended.values())
        slots = tuple((node, ()) for node in nodes_of(self.start.slots)) if is_over else self.start.slots
        # partners of a weave that are adopted one by one would not know each other
        return replace(self.start, at=now, slots=slots, weave=())


class Adoption:
    """The runs that workers describe. It is active while the scheduler is paused for it."""

    def __init__(self, state: Callable[[], State], opened_at: Seconds) -> None:
        self._state, self._until = state, opened_at + RECOVERY_S
        self._described: dict[JobId, _Described] = {}
        self.adopted: dict[JobId, int] = {}
        """The adopted jobs and their runs."""

    @property
    def is_active(self) -> bool:
        return RECOVERING in self._state().paused

    def wanted(self, kept: Iterable[JobId]) -> list[JobId]:
        """Return the jobs of which the journal may lack runs."""
        known = self._state().jobs
        return [job for job in kept if is_valid_job_id(job) and (job not in known or known[job].status not in ENDED)]

    def add(self, node: NodeId, message: RunRecord) -> None:
        """Keep what a node describes, if a scheduler can have started that there."""
        record = read_record(message.record, message.job)
        if not self.is_active or record is None or len(self._described) >= MAX_RECORDS:
            return
        submitted, start = record
        gpus = sum(len(each) for _, each in start.slots)
        if start.run != message.run or node not in nodes_of(start.slots) or gpus != submitted.gpus:
            return
        job = recovered_job(submitted, dict(pairs(message.env)))
        try:
            check_job(job)
        except WeftError as error:
            log.warning("%s describes a job that cannot be: %s", node, error)
            return
        if submitted.replica is not None:
            return  # its service starts another
        before = self._described.get(job.id)
        if before is None or before.start.run < start.run:
            before = self._described[job.id] = _Described(job, start)
        if before.start == start:
            before.ended[node] = message.ended

    def step(self, now: Seconds) -> list[Event]:
        """Return the jobs to submit, and the end of the pause once it is due."""
        if not self.is_active:
            return []
        known = self._state().jobs
        events: list[Event] = [Submitted(now, each.job) for job, each in self._described.items() if job not in known]
        if now >= self._until:
            log.warning("the recovery has ended: runs of %d jobs were adopted", len(self.adopted))
            self._described.clear()
            events.append(Resumed(now, RECOVERING))
        return events

    def decide(self, scheduler: Scheduler, now: Seconds) -> list[Decision]:
        """Decide the runs whose jobs wait and whose GPUs are free. Others follow once their nodes have reported."""
        decisions: list[Decision] = []
        for job_id, described in list(self._described.items()):
            job, start = scheduler.state.jobs.get(job_id), described.start_at(now)
            if job is None or start is None or not self.is_active:
                continue
            if made := scheduler.adopt(start):
                log.warning("adopted run %d of job %s, which the journal did not have", start.run, job_id)
                self.adopted[job_id] = start.run
                decisions += made
            if start.run <= job.run or job.status in ENDED:
                del self._described[job_id]
        return decisions

    def problems(self) -> list[str]:
        """Return what was adopted, for `weft doctor`."""
        if not self.adopted:
            return []
        jobs = ", ".join(islice(self.adopted, 10)) + (", ..." if len(self.adopted) > 10 else "")
        return [
            f"the journal lacked facts: runs of {plural(len(self.adopted), 'job')} were adopted from workers: {jobs}"
        ]
