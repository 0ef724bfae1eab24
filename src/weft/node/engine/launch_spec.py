"""The launch spec: everything that a shim needs to start a run."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from weft.errors import InputError
from weft.model import Health, JobId
from weft.node.engine.rendezvous import Gang
from weft.node.engine.users.accounts import Account
from weft.node.engine.weave_spec import WeaveSpec

LOG_CAP_BYTES: Final = 512 << 20
GRACE_S: Final = 30.0
PREEMPT_GRACE_S: Final = 60.0
AUTO_STAGES: Final = "auto"
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """One run as the engine starts it on this node."""

    job: JobId
    run: int
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    """The submitter's environment; the engine adds only the variables that describe the run."""
    chdir: str = ""
    """Working directory; empty: the run's directory."""
    name: str = ""
    user: str = ""
    account: Account | None = None
    """The account that the processes of the run get; None: that of this process."""
    gpus: tuple[int, ...] = ()
    gpu_uuids: tuple[str, ...] = ()
    """One for each of `gpus`, or empty if unknown."""
    memory_mb: int = 0
    """Limit on each GPU; 0: none."""
    ram_mb: int = 0
    """Limit on the main memory of the run on this node; 0: none."""
    cpu_limit: int = 0
    """Limit on the CPUs of the run on this node; 0: none."""
    params: tuple[tuple[str, str], ...] = ()
    restarts: int = 0
    array_index: int | None = None
    array_size: int | None = None
    array_first: int | None = None
    array_last: int | None = None
    time_limit_s: float | None = None
    grace_s: float = GRACE_S
    """Time between SIGTERM and SIGKILL on cancellation or at the time limit."""
    preempt_grace_s: float = PREEMPT_GRACE_S
    """The same on preemption or move."""
    signal: str = ""
    """A signal before the time limit and on preemption, such as USR2@120; empty: none."""
    output: str = ""
    """The user's own file for standard output, and for standard error unless `error` names another; empty: the log."""
    error: str = ""
    stdin: str = ""
    """The file that the run gets as its standard input; empty: /dev/null."""
    terminal: str = ""
    """The type of the terminal that the run gets, for a client that connects to it; empty: none."""
    log_cap_bytes: int = LOG_CAP_BYTES
    """0: no cap."""
    umask: int = 0o022
    socket: str = ""
    """Path of the socket on which the job may report progress."""
    hide_gpus: bool = True
    """Hide all GPUs from a run without GPUs."""
    gang: Gang | None = None
    """The nodes that the run uses; None: this one alone."""
    per_gpu: bool = False
    """Start one process per GPU instead of one per node."""
    gpu_share: float | None = None
    """The most of each GPU that the run may use, if other runs may share its GPUs; None: it has them alone."""
    gpu_request: float | None = None
    """The part of each GPU that the run is guaranteed, if other runs may share its GPUs."""
    cpus: int = 0
    """CPUs for each GPU, or in all for a run without GPUs; 0: not counted."""
    group: str = ""
    requeue: bool | None = None
    """True: the exit of the run says whether it had saved its work at its time limit."""
    compat: str = ""
    """The scheduler whose variables the run gets too; empty: none."""
    lease: str = ""
    """Path of the lease file; empty: the run may continue without contact to the scheduler."""
    weave: WeaveSpec | None = None
    """None: the run is not woven."""
    stages: str = ""
    """`auto`: the run finds its stages by hooks in torch; empty: it names them itself, or has none."""
    image: str = ""
    """The image of the container in which the run executes; empty: none."""
    mounts: tuple[str, ...] = ()
    runtime: str = ""
    """The container runtime; empty: the first that answers."""
    health: Health | None = None
    """The probes of a replica of a service; None: the run is no replica."""
    host: str = ""
    port: int = 0
    """The address at which a replica must listen; the node chooses the port."""
    record: str = ""
    """The submission of the job as the journal has it, without its environment, in case the journal is lost; empty:
    none."""

    @property
    def cpus_here(self) -> int:
        """The CPUs of the run on this node."""
        return self.cpus * max(len(self.gpus), 1)

    def check(self) -> None:
        """Raise InputError for values that a process cannot take or that would escape the run's directory."""
        if not is_valid_job_id(self.job):
            raise InputError(f"invalid job id {self.job!r}: use letters, digits and . _ - only")
        if self.run < 1:
            raise InputError(f"invalid run number {self.run}: runs are numbered from 1")
        if not self.argv or not self.argv[0]:
            raise InputError("the command is empty", hint="give a program and its arguments")
        for value in (
            *self.argv,
            *(part for pair in self.env + self.params for part in pair),
            self.chdir,
            self.name,
            self.output,
            self.error,
            self.terminal,
            self.image,
            *self.mounts,
        ):
            if "\0" in value:
                raise InputError(f"a process argument or variable cannot contain a NUL character: {value!r}")
        for name, _ in self.env:
            if not name or "=" in name:
                raise InputError(f"invalid environment variable name {name!r}")
        if self.weave is not None:
            self.weave.check()
        if self.stages not in ("", AUTO_STAGES):
            raise InputError(f"unknown stages {self.stages!r}", hint=f"use {AUTO_STAGES}, or nothing")
        if self.gpu_uuids and len(self.gpu_uuids) != len(self.gpus):
            raise InputError(f"{len(self.gpus)} GPUs but {len(self.gpu_uuids)} UUIDs: give one for each GPU, or none")
        for what, seconds in (
            ("time limit", self.time_limit_s),
            ("grace", self.grace_s),
            ("grace", self.preempt_grace_s),
        ):
            if seconds is not None and not (math.isfinite(seconds) and seconds >= 0):
                raise InputError(f"invalid {what}: {seconds} s; use a finite number of 0 or more")


def is_valid_job_id(job: JobId) -> bool:
    """Return whether an id is safe as a directory name."""
    return _SAFE_NAME.fullmatch(job) is not None
