"""The folder of an agent: its runs, and what the next agent here must know."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.endpoints.paths import Paths, user_paths
from weft.engines.process.launch_spec import is_valid_job_id
from weft.engines.process.output.logs import RUNS_KEPT, remove_old_runs
from weft.engines.process.recovery import run_record
from weft.engines.process.shim import run_files
from weft.errors import InputError
from weft.inputs import locks
from weft.inputs.atomic import write_atomic
from weft.model import JobId, NodeId
from weft.wire.runs import RunKey

TOLD: Final = "told"
"""In the folder of a run: the scheduler has its end on disk."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True)
class Folder:
    state: Path
    runtime: Path

    @property
    def jobs(self) -> Path:
        return self.state / "jobs"

    @property
    def lease(self) -> str:
        return str(self.state / "lease")

    @property
    def progress(self) -> Path:
        """Where jobs report their progress."""
        return self.runtime / "progress.sock"

    def run(self, job: JobId, run: int) -> str:
        return run_files.run_dir(str(self.jobs), job, run)

    def make(self) -> None:
        Paths(self.state, self.runtime).make()

    def lock(self) -> int:
        """Lock the folder until this process ends: two agents with one folder would both start its runs."""
        what = f"a worker called {self.state.name} runs here already"
        return locks.acquire(self.state / "lock", what, "stop it, or give this one another --id")

    def holder(self) -> int | None:
        """Return the pid of the agent that holds the lock of this folder."""
        return locks.holder(self.state / "lock")

    # ---- who it is

    def disk_id(self) -> str:
        """Names this disk on this machine: made once."""
        path = self.state / "home"
        token = _read(path)
        if not token:
            token = secrets.token_hex(8)
            write_atomic(path, token.encode())
        return f"{token}@{_machine()}"

    def cluster(self) -> str:
        """Whose runs are here; empty: nobody's yet."""
        return _read(self.state / "cluster")

    def join(self, cluster: str) -> None:
        """Numbers of jobs mean something only within one cluster: the runs of another are put aside."""
        before = self.cluster()
        if before and before != cluster:
            self.jobs.rename(self._aside(before))
            with suppress(FileNotFoundError):
                self._aside(cluster).rename(self.jobs)
            self.jobs.mkdir(mode=0o700, exist_ok=True)
        write_atomic(self.state / "cluster", cluster.encode())

    def _aside(self, cluster: str) -> Path:
        return self.state / f"jobs-of-{hashlib.sha256(cluster.encode()).hexdigest()[:16]}"

    # ---- its runs

    def unsettled(self) -> list[RunKey]:
        """Runs that somebody has claimed, and whose end the scheduler may not know."""
        return [
            (job, int(run))
            for job in _names(self.jobs)
            if is_valid_job_id(job)
            for run in _names(self.jobs / job)
            if run.isdecimal() and int(run) > 0 and self._is_unsettled(self.jobs / job / run)
        ]

    def _is_unsettled(self, run: Path) -> bool:
        found = set(_names(run))
        return TOLD not in found and not found.isdisjoint((run_files.CLAIM, run_files.STARTED, run_files.EXIT))

    def living(self, runs: Iterable[RunKey]) -> list[RunKey]:
        """Those of which no end is written."""
        return [key for key in runs if not os.path.exists(f"{self.run(*key)}/{run_files.EXIT}")]

    def is_claimed(self, job: JobId, run: int) -> bool:
        """Whether it was started, or must not be any more: what is left of it may have gone by `trim`."""
        folder = self.run(job, run)
        if any(os.path.exists(f"{folder}/{name}") for name in (run_files.CLAIM, run_files.STARTED, run_files.EXIT)):
            return True
        return any(name.isdecimal() and int(name) >= run + RUNS_KEPT for name in _names(self.jobs / job))

    def trim(self, job: JobId, run: int) -> None:
        """A run of this number begins: those long before it may go, once the scheduler knows how they ended."""
        remove_old_runs(str(self.jobs / job), run, lambda folder: not os.path.exists(f"{folder}/{TOLD}"))

    def fence(self, job: JobId, run: int) -> bool:
        """Nobody starts this run any more; False: somebody has."""
        return run_record.fence(self.run(job, run))

    def tell(self, job: JobId, run: int) -> None:
        """Its end need not be said again. If that cannot be written it is said once more, which does no harm."""
        with suppress(OSError):
            run_files.write_new(f"{self.run(job, run)}/{TOLD}", b"")

    def kept(self) -> list[JobId]:
        """Jobs of which something is here."""
        return [job for job in _names(self.jobs) if is_valid_job_id(job)]

    def forget(self, jobs: Iterable[JobId]) -> None:
        for job in jobs:
            if is_valid_job_id(job):
                shutil.rmtree(self.jobs / job, ignore_errors=True)


def folder_of(node: NodeId, at: Path | None = None, env: Mapping[str, str] = os.environ) -> Folder:
    """Of the worker of this name, of this user; `at`: where it is to be, if not among those of other workers."""
    if not _NAME.fullmatch(node):
        raise InputError(
            f"{node[:80]!r} cannot be the name of a worker",
            hint="up to 63 letters, digits and . _ -, beginning with a letter or digit",
        )
    here = user_paths(env)
    state = at.absolute() if at is not None else here.state / "workers" / node
    return Folder(state, here.runtime.parent / hashlib.sha256(os.fsencode(state)).hexdigest()[:8])


def _machine() -> str:
    return _read(Path("/etc/machine-id")) or platform.node()


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""


def _names(path: Path) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []
