"""An executor for submitit, which finds it by entry point: `submitit.AutoExecutor(folder, cluster="weft")`.

Functions and results are pickled by submitit, in files of the executor's folder: submitit promises that any function
works, closures and those of a notebook included, which names cannot keep. Weft sees a command only. The folder must be
on a file system that the submitter and the nodes share, as with Slurm. `weft.job` pickles nothing.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn

from submitit.core.core import EquivalenceDict, Executor, Job, R
from submitit.core.job_environment import JobEnvironment
from submitit.core.utils import DelayedSubmission, JobPaths

from weft.access.client.api import JobHandle, connection, submit_many
from weft.access.endpoints.config import scheduler_address
from weft.access.jobspec.fields import READABLE
from weft.errors import InputError
from weft.inputs.quantities import normalize_signal
from weft.model.status import ENDED
from weft.train.stopping import EXIT_CHECKPOINTED

SIGNAL_DELAY_S: Final = 90
"""The seconds before a time limit at which submitit saves a function that has a method `checkpoint`."""
MB_PER_GB: Final = 1024
SIGNAL_VARIABLE: Final = "SUBMITIT_PREEMPT_SIGNAL"
"""Tells submitit in the job which signal to expect."""
OWN: Final = frozenset({"nodes", "tasks", "scheduler", "signal_delay_s"})
"""Parameters that are no keys of `weft.submit`."""
STATES: Final = {"done": "COMPLETED", "failed": "FAILED", "cancelled": "CANCELLED", "running": "RUNNING",
                 "starting": "RUNNING", "stopping": "COMPLETING"}  # fmt: skip
"""Statuses in the words of Slurm, which submitit uses. Others are PENDING."""


class WeftJobEnvironment(JobEnvironment):
    """The environment of a function that runs as a job."""

    _env: ClassVar[dict[str, str]] = {
        "job_id": "WEFT_JOB_ID", "num_tasks": "SUBMITIT_WEFT_UNSET", "num_nodes": "SUBMITIT_WEFT_UNSET",
        "node": "SUBMITIT_WEFT_UNSET", "global_rank": "SUBMITIT_WEFT_UNSET", "local_rank": "SUBMITIT_WEFT_UNSET",
    }  # fmt: skip

    def _requeue(self, countdown: int) -> NoReturn:  # noqa: ARG002
        """Ask for another run, which calls what `checkpoint` returned."""
        sys.exit(EXIT_CHECKPOINTED)


class WeftJob(Job[R]):
    def __init__(self, folder: Path | str, job_id: str, tasks: Sequence[int] = (0,), scheduler: str = "") -> None:
        self._scheduler = scheduler
        super().__init__(folder, job_id, tasks)

    def _register_in_watcher(self) -> None:
        """Nothing to do: each job asks the scheduler itself, which answers in a millisecond."""

    @property
    def handle(self) -> JobHandle:
        return JobHandle(self.job_id, scheduler=self._scheduler or None)

    @property
    def state(self) -> str:
        return STATES.get(self.handle.status, "PENDING")

    def get_info(self, mode: str = "force") -> dict[str, str]:  # noqa: ARG002
        return {"State": self.state}

    def done(self, force_check: bool = False) -> bool:  # noqa: ARG002
        return self.handle.status in ENDED

    def wait(self) -> None:
        self.handle.wait()

    def cancel(self, check: bool = True) -> None:  # noqa: ARG002
        self.handle.cancel()


class WeftExecutor(Executor):
    """Submits functions as jobs. Parameters are those of submitit, and the keys of `weft.submit`."""

    job_class = WeftJob

    def __init__(self, folder: Path | str, max_num_timeout: int = 3) -> None:
        super().__init__(folder)
        self.max_num_timeout = max_num_timeout

    @classmethod
    def affinity(cls) -> int:
        """Return 0: submitit uses Weft only if it is asked to."""
        return 0

    @classmethod
    def _equivalence_dict(cls) -> EquivalenceDict:
        return EquivalenceDict(
            name="name", timeout_min="time", mem_gb="mem", nodes="nodes", cpus_per_task="cpus", gpus_per_node="gpus",
            tasks_per_node="tasks",
        )  # fmt: skip

    @classmethod
    def _valid_parameters(cls) -> set[str]:
        return {*OWN, *READABLE} - {"command", "array", "output", "error", "chdir", "hold"}

    def _convert_parameters(self, params: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = super()._convert_parameters(params)
        if "mem" in found and "mem_gb" in params:
            found["mem"] = int(params["mem_gb"] * MB_PER_GB)
        return found

    def _internal_update_parameters(self, **parameters: Any) -> None:
        unknown = sorted(parameters.keys() - self._valid_parameters())
        if unknown:
            raise InputError(f"unknown parameter {unknown[0]!r}", hint="submitit's, or the keys of weft.submit")
        if parameters.get("nodes", 1) != 1 or parameters.get("tasks", 1) != 1:
            hint = "a function that starts its own processes, such as torchrun's, may use all GPUs of its node"
            raise InputError("a function runs as one task on one node", hint=hint)
        super()._internal_update_parameters(**parameters)

    def _internal_process_submissions(self, delayed_submissions: list[DelayedSubmission]) -> list[Job[Any]]:
        """Write the functions into files, submit jobs that call them, and name the files after the jobs."""
        folder = JobPaths.get_first_id_independent_folder(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        keys = {key: value for key, value in self.parameters.items() if key not in OWN}
        scheduler, minutes = self.parameters.get("scheduler", ""), keys.get("time")
        name, _, delay_s = str(keys.get("signal") or JobEnvironment.USR_SIG).partition("@")
        delay_s = self.parameters.get("signal_delay_s", delay_s or SIGNAL_DELAY_S)
        keys["signal"] = normalize_signal(f"{name}@{delay_s}")
        awaited = keys["signal"].partition("@")[0].removeprefix("B:")
        pickles = []
        for delayed in delayed_submissions:
            delayed.set_timeout(int(minutes or 0) or MAX_MINUTES, self.max_num_timeout)
            pickles.append(folder / f"{uuid.uuid4().hex}.pkl")
            delayed.dump(pickles[-1])
        shared = {
            "command": [sys.executable, "-u", "-m", "submitit.core._submit", str(self.folder)], "name": "submitit",
            **keys, "env": {**keys.get("env", {}), "SUBMITIT_EXECUTOR": "weft", SIGNAL_VARIABLE: awaited},
            "chdir": Path.cwd(), "hold": True,
            "output": str(self.folder / "%j_0_log.out"), "error": str(self.folder / "%j_0_log.err"),
        }  # fmt: skip
        handles = submit_many([shared] * len(pickles), scheduler=scheduler or None)
        jobs: list[Job[Any]] = [WeftJob(self.folder, handle.id, scheduler=scheduler) for handle in handles]
        for job, pickle in zip(jobs, pickles, strict=True):
            job.paths.move_temporary_file(pickle, "submitted_pickle")
        connection(scheduler_address(scheduler or None)).change("release", [job.job_id for job in jobs])
        return jobs


MAX_MINUTES: Final = 60 * 24 * 365
"""The time limit that submitit assumes of a job without one: a stop in the first run is then a preemption."""
