"""Protection of runs from preemption."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from weft.model import Seconds
from weft.scheduling.core.state.job import JobState


@dataclass(frozen=True, slots=True)
class Protection:
    """Limits on preemption, so that no job is stopped again and again."""

    min_run_s: float = 0.0
    """A run is not preempted before it has lasted this long, or as long as its job says if that is shorter."""
    max_preemptions: int | None = None
    """A job that was preempted this often is not preempted again."""

    def until(self, job: JobState) -> Seconds:
        """Return from when on the job's run may be preempted; infinite: never."""
        if self.max_preemptions is not None and job.preemptions >= self.max_preemptions:
            return inf
        min_run_s = self.min_run_s
        if (task := job.job.task) is not None and task.min_run_s is not None:
            min_run_s = min(min_run_s, task.min_run_s)
        return job.started_at + min_run_s if min_run_s else -inf


UNPROTECTED: Final = Protection()
