"""The state directory of an agent: its runs, and the records for the next agent on this node."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.access.endpoints.paths import Paths, make_parents, paths_of
from weft.access.wire.convert import variables
from weft.access.wire.messages import AgentMessage, Kept, RunRecord
from weft.access.wire.runs import MAX_JOBS_PER_MESSAGE, RunKey
from weft.errors import InputError
from weft.inputs import locks
from weft.inputs.atomic import write_atomic
from weft.model import JobId, NodeId
from weft.node.engine.launch_spec import is_valid_job_id
from weft.node.engine.output.logs import RUNS_KEPT, remove_old_runs
from weft.node.engine.recovery import run_record
from weft.node.engine.shim import run_files

CONFIRMED_FILE: Final = "told"
"""The file in a run's folder that marks its exit as journalled by the scheduler."""
SHARED_STATE: Final = Path("/var/lib/weft")
SHARED_RUNTIME: Final = Path("/run/weft")
"""The folders of workers that run jobs as their submitters."""
ENTER_ONLY: Final = 0o711
_WORKER_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True)
class AgentDir:
    state: Path
    runtime: Path
    for_all_users: bool = False
    """Other users enter the folders, to reach what is theirs."""

    @property
    def jobs(self) -> Path:
        return self.state / "jobs"

    @property
    def lease(self) -> str:
        return str(self.state / "lease")

    @property
    def log(self) -> Path:
        return self.state / "worker.log"

    @property
    def progress(self) -> Path:
        """Path of the socket on which jobs report progress."""
        return self.runtime / "progress.sock"

    def run_dir(self, job: JobId, run: int) -> str:
        return run_files.run_dir(str(self.jobs), job, run)

    def make(self) -> None:
        if self.for_all_users:
            for folder in (self.state, self.runtime):
                make_parents(folder, ENTER_ONLY)
        Paths(self.state, self.runtime).make()
        if self.for_all_users:
            for folder in (self.state, self.jobs, self.runtime.parent, self.runtime):
                os.chmod(folder, ENTER_ONLY)
            for folder in (self.jobs, self.runtime):
                _check_reachable(folder)

    def lock(self) -> int:
        """Lock the folder until this process ends: two agents with one folder would both start its runs."""
        what = f"a worker named {self.state.name} is already running here"
        return locks.acquire(self.state / "lock", what, "stop it, or give this one another --id")

    def lock_holder_pid(self) -> int | None:
        """Return the pid of the agent that holds the lock of this folder."""
        return locks.holder(self.state / "lock")

    # ---- identity

    def disk_id(self) -> str:
        """Return the id of this disk on this machine, created once."""
        path = self.state / "home"
        token = _read(path)
        if not token:
            token = secrets.token_hex(8)
            write_atomic(path, token.encode())
        return f"{token}@{_machine_id()}"

    def cluster(self) -> str:
        """Return the id of the cluster whose runs are here, or an empty string."""
        return _read(self.state / "cluster")

    def join(self, cluster: str) -> None:
        """Switch to a cluster. Job ids are unique only within a cluster, so set the runs of another cluster aside."""
        before = self.cluster()
        if before and before != cluster:
            self.jobs.rename(self._set_aside_path(before))
            with suppress(FileNotFoundError):
                self._set_aside_path(cluster).rename(self.jobs)
            self.jobs.mkdir(mode=0o700, exist_ok=True)
        write_atomic(self.state / "cluster", cluster.encode())

    def _set_aside_path(self, cluster: str) -> Path:
        return self.state / f"jobs-of-{hashlib.sha256(cluster.encode()).hexdigest()[:16]}"

    # ---- runs

    def unconfirmed(self) -> list[RunKey]:
        """Return the claimed runs whose exit the scheduler may not know."""
        return [
            (job, int(run))
            for job in _list_names(self.jobs)
            if is_valid_job_id(job)
            for run in _list_names(self.jobs / job)
            if run.isdecimal() and int(run) > 0 and self._is_unconfirmed(self.jobs / job / run)
        ]

    def _is_unconfirmed(self, run: Path) -> bool:
        found = set(_list_names(run))
        return CONFIRMED_FILE not in found and not found.isdisjoint(
            (run_files.CLAIM, run_files.STARTED, run_files.EXIT)
        )

    def unfinished(self, runs: Iterable[RunKey]) -> list[RunKey]:
        """Return the runs without an exit record."""
        return [key for key in runs if not os.path.exists(f"{self.run_dir(*key)}/{run_files.EXIT}")]

    def is_claimed(self, job: JobId, run: int) -> bool:
        """Return whether a run was started or fenced; its record may have been removed by `remove_old_runs`."""
        folder = self.run_dir(job, run)
        if any(os.path.exists(f"{folder}/{name}") for name in (run_files.CLAIM, run_files.STARTED, run_files.EXIT)):
            return True
        return any(name.isdecimal() and int(name) >= run + RUNS_KEPT for name in _list_names(self.jobs / job))

    def remove_old_runs(self, job: JobId, run: int) -> None:
        """Remove the folders of much older runs whose exit the scheduler has confirmed."""
        remove_old_runs(str(self.jobs / job), run, lambda folder: not os.path.exists(f"{folder}/{CONFIRMED_FILE}"))

    def fence(self, job: JobId, run: int) -> bool:
        """Prevent any shim from starting this run; return False if one has claimed it."""
        return run_record.fence(self.run_dir(job, run))

    def mark_confirmed(self, job: JobId, run: int) -> None:
        """Record that the scheduler has the exit. If the write fails, the exit is sent again, which is harmless."""
        with suppress(OSError):
            run_files.write_new(f"{self.run_dir(job, run)}/{CONFIRMED_FILE}", b"")

    def records(self, jobs: Sequence[JobId]) -> list[AgentMessage]:
        """Return what the latest run of each job keeps of its job and its start."""
        found = []
        for job in filter(is_valid_job_id, jobs[:MAX_JOBS_PER_MESSAGE]):
            run = max((int(name) for name in _list_names(self.jobs / job) if name.isdecimal()), default=0)
            spec = run_files.read_object(f"{self.run_dir(job, run)}/{run_files.SPEC}") or {}
            if record := spec.get("record"):
                env = variables(spec["env"].items())
                ended = not self.unfinished([(job, run)])
                found.append(AgentMessage(record=RunRecord(job=job, run=run, record=record, env=env, ended=ended)))
        return found

    def kept_jobs(self) -> list[AgentMessage]:
        """Return the jobs that have folders here: some may have been purged while the agent was away."""
        jobs = [job for job in _list_names(self.jobs) if is_valid_job_id(job)]
        starts = range(0, len(jobs), MAX_JOBS_PER_MESSAGE)
        return [AgentMessage(kept=Kept(jobs=jobs[at : at + MAX_JOBS_PER_MESSAGE])) for at in starts]

    def forget(self, jobs: Iterable[JobId]) -> None:
        """Remove the folders of these jobs."""
        for job in jobs:
            if is_valid_job_id(job):
                shutil.rmtree(self.jobs / job, ignore_errors=True)


def agent_dir(
    node: NodeId, at: Path | None = None, env: Mapping[str, str] = os.environ, *, for_all_users: bool = False
) -> AgentDir:
    """Return the directory of the worker with this name; `at` overrides its default path.

    Root's own folders are closed to others. A worker that runs jobs `for_all_users` uses those of the system.
    """
    if not _WORKER_NAME.fullmatch(node):
        raise InputError(
            f"invalid worker name {node[:80]!r}",
            hint="use up to 63 letters, digits and . _ -, beginning with a letter or digit",
        )
    if for_all_users:
        state = at.absolute() if at is not None else SHARED_STATE / "workers" / node
        return AgentDir(state, SHARED_RUNTIME / _mark(state), for_all_users=True)
    here = paths_of(env)
    state = at.absolute() if at is not None else here.state / "workers" / node
    return AgentDir(state, here.runtime.parent / _mark(state))


def _mark(state: Path) -> str:
    return hashlib.sha256(os.fsencode(state)).hexdigest()[:8]


def _check_reachable(folder: Path) -> None:
    """Raise InputError if other users cannot enter a folder."""
    for each in (folder, *folder.parents):
        if not os.stat(each).st_mode & 0o001:
            raise InputError(
                f"jobs cannot run as their submitters in {folder}: other users may not enter {each}",
                hint=f"give --folder one that they may, such as {SHARED_STATE}, or use --run-as worker",
            )


def _machine_id() -> str:
    return _read(Path("/etc/machine-id")) or platform.node()


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""


def _list_names(path: Path) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []
