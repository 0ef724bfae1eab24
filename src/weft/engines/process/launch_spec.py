"""What a run is to be: all that a shim must know."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from weft.engines.process.rendezvous import Gang
from weft.errors import InputError
from weft.model import JobId

LOG_CAP_BYTES: Final = 512 << 20
GRACE_S: Final = 30.0
PREEMPT_GRACE_S: Final = 60.0
_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    job: JobId
    run: int
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    """The environment as its submitter had it; nothing of the scheduler's own is added but what a run is told."""
    chdir: str = ""
    """Empty: the run's own directory."""
    name: str = ""
    gpus: tuple[int, ...] = ()
    gpu_uuids: tuple[str, ...] = ()
    """One for each of `gpus`, or none where they are not known."""
    memory_mb: int = 0
    """Of each GPU; 0: no limit was agreed."""
    params: tuple[tuple[str, str], ...] = ()
    restarts: int = 0
    array_index: int | None = None
    array_size: int | None = None
    time_limit_s: float | None = None
    grace_s: float = GRACE_S
    """Between SIGTERM and SIGKILL when it is cancelled or its time is up."""
    preempt_grace_s: float = PREEMPT_GRACE_S
    """The same when it is preempted or moved."""
    log_cap_bytes: int = LOG_CAP_BYTES
    """0: no cap."""
    umask: int = 0o022
    socket: str = ""
    """Where the job may report its progress."""
    hide_gpus: bool = True
    """Whether a run without GPUs is kept from seeing any."""
    gang: Gang | None = None
    """The nodes that it is started on together; None: this one alone."""
    per_gpu: bool = False
    """One process for each GPU, not one for the node."""
    lease: str = ""
    """The file that says how long it may go on unless that is said anew; empty: for ever."""

    def check(self) -> None:
        """Refuse what could not be handed to a process, or would leave the directory of the run."""
        if not is_valid_job_id(self.job):
            raise InputError(f"a job's id may hold letters, digits and . _ - only, not {self.job!r}")
        if self.run < 1:
            raise InputError(f"runs are numbered from 1, not {self.run}")
        if not self.argv or not self.argv[0]:
            raise InputError("the command is empty", hint="give a program and its arguments")
        for value in (*self.argv, *(part for pair in self.env + self.params for part in pair), self.chdir, self.name):
            if "\0" in value:
                raise InputError(f"a NUL character cannot be given to a process: {value!r}")
        for name, _ in self.env:
            if not name or "=" in name:
                raise InputError(f"{name!r} cannot be the name of a variable")
        if self.gpu_uuids and len(self.gpu_uuids) != len(self.gpus):
            raise InputError(f"{len(self.gpus)} GPUs but {len(self.gpu_uuids)} uuids: give one for each, or none")
        for what, seconds in (
            ("time limit", self.time_limit_s),
            ("grace", self.grace_s),
            ("grace", self.preempt_grace_s),
        ):
            if seconds is not None and not (math.isfinite(seconds) and seconds >= 0):
                raise InputError(f"a {what} of {seconds} s makes no sense")


def is_valid_job_id(job: JobId) -> bool:
    """Whether an id can be the name of a directory as it is."""
    return _PLAIN.fullmatch(job) is not None
