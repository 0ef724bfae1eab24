"""Plays a trace on a live scheduler in compressed time, with stand-ins for the programs of its jobs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from weft.access.client import Client
from weft.access.wire.messages import JobSpec, SubmitRequest, Variable
from weft.errors import InputError, NotFound, WeftError
from weft.sim.traces.trace import TraceJob

if TYPE_CHECKING:
    from weft.views.answers.jobs import JobDetailView

POLL_S: Final = 0.5
MAX_POLLED_JOBS: Final = 500
"""Jobs in one query: the oldest that have not ended."""
MAX_SUBMITTED_JOBS: Final = 1000
"""Jobs in one request."""
CANCEL_TIMEOUT_S: Final = 120.0
NO_VARIABLES: Final[Mapping[str, str]] = MappingProxyType({})
COMMAND: Final = 'exec "${WEFT_PYTHON:-python3}" -m weft.train.standin "$0" "$1"'

Program = Callable[[TraceJob, float, str], JobSpec]
"""Returns what runs in place of a job: called with the job, its work in real seconds, and a file for its saves."""


def stand_in(_: TraceJob, work_s: float, file: str) -> JobSpec:
    """Return the stand-in that runs on any node that has Weft."""
    return JobSpec(command=["sh", "-c", COMMAND, f"{work_s:.6f}", file])


class TracePlayer:
    """Submits the jobs of a trace when they are due, and waits for their ends.

    All jobs have one group, by which `cancel` finds them, those of an interrupted request too. `folder` is where the
    stand-ins save; nodes that do not have it use the checkpoint folder of the job. `program` returns the command of
    each job, and what else is special about it.
    """

    def __init__(
        self, client: Client, jobs: Sequence[TraceJob], speed: float, *, group: str, folder: str,
        program: Program = stand_in, env: Mapping[str, str] = NO_VARIABLES, poll_s: float = POLL_S,
    ) -> None:  # fmt: skip
        self._client, self._jobs, self._speed = client, jobs, speed
        self.group, self._folder, self._program, self._poll_s = group, folder, program, poll_s
        self._env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), **env}
        self._open: dict[str, None] = {}
        """Ids of jobs that have not ended, the oldest first."""
        self.submitted = 0
        self.late_s = 0.0
        """The longest delay of a submission, in real seconds."""
        self._min_run_s = round(client.doctor().min_run_s / max(speed, 1.0), 3)
        """The scheduler's protection from preemption, in seconds of the trace."""

    @property
    def ended(self) -> int:
        return self.submitted - len(self._open)

    def play(self, tick: Callable[[int], None]) -> None:
        """Submit all jobs in time, and return when all have ended. Call `tick` with the number of ended jobs."""
        began, first_s = time.monotonic(), self._jobs[0].submit_s
        due = [began + (each.submit_s - first_s) / self._speed for each in self._jobs]
        while self.submitted < len(self._jobs) or self._open:
            now = time.monotonic()
            if self.submitted < len(self._jobs) and due[self.submitted] <= now:
                self.late_s = max(self.late_s, now - due[self.submitted])
                self._submit_due(due, now)
                continue
            self._poll()
            tick(self.ended)
            pause_s = self._poll_s if self.submitted == len(self._jobs) else due[self.submitted] - time.monotonic()
            time.sleep(max(min(pause_s, self._poll_s), 0.0))

    def cancel(self) -> None:
        """Cancel the jobs that have not ended, and return when they have."""
        with suppress(NotFound):
            self._client.change("cancel", group=self.group)
        until = time.monotonic() + CANCEL_TIMEOUT_S
        while [job for job in self._of_group() if not job.ended]:
            if time.monotonic() > until:
                raise WeftError(
                    f"jobs of the group {self.group} still run\n  end them: weft cancel --group {self.group}"
                )
            time.sleep(POLL_S)

    def _of_group(self) -> Sequence[JobDetailView]:
        with suppress(NotFound):
            return self._client.jobs(group=self.group).jobs
        return ()

    def _submit_due(self, due: Sequence[float], now: float) -> None:
        end = self.submitted
        while end < len(due) and due[end] <= now and end - self.submitted < MAX_SUBMITTED_JOBS:
            end += 1
        specs = [self._spec(number) for number in range(self.submitted, end)]
        env = [Variable(name=name, value=value) for name, value in self._env.items()]
        ids = self._client.submit(SubmitRequest(jobs=specs, env=env, chdir=os.path.abspath(os.sep)))
        self._open.update(dict.fromkeys(ids))
        self.submitted = end

    def _spec(self, number: int) -> JobSpec:
        each = self._jobs[number]
        work_s = each.work_s / self._speed
        job = each.job
        declared_s = work_s if job.declared_s is None else job.declared_s / self._speed
        spec = JobSpec(
            name=job.name or f"{self.group}-{job.id}"[:80], gpus=job.gpus, priority=job.priority, retries=job.retries,
            declared_s=declared_s, group=self.group, min_run_s=self._min_run_s,
        )  # fmt: skip
        spec.MergeFrom(self._program(each, work_s, os.path.join(self._folder, str(number))))
        return spec

    def _poll(self) -> None:
        oldest = [job for job, _ in zip(self._open, range(MAX_POLLED_JOBS), strict=False)]
        if oldest:
            for job in self._client.jobs(oldest).jobs:
                if job.ended:
                    self._open.pop(job.id, None)


def check_fits(jobs: Sequence[TraceJob], gpus: int) -> None:
    """Raise for jobs that need more GPUs than the scheduler has: they would wait for ever."""
    large = [each.job for each in jobs if each.job.gpus > gpus]
    if large:
        what = (
            f"{len(large):,} of {len(jobs):,} jobs need more GPUs than the {gpus} there are, such as job {large[0].id}"
        )
        raise InputError(f"{what} with {large[0].gpus}", hint="add workers, or leave the jobs out: --skip-infeasible")
