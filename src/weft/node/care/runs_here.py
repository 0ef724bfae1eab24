"""The runs on this machine according to their records: of this user's scheduler and of all its workers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.access.endpoints.paths import user_paths
from weft.errors import InputError
from weft.inputs import locks
from weft.node.agent.state_dir import SHARED_STATE, agent_dir
from weft.node.engine.launch_spec import is_valid_job_id
from weft.node.engine.recovery.run_record import Fate, judge, read_evidence
from weft.node.engine.shim import run_files
from weft.node.engine.shim.process_id import boot_id, is_alive
from weft.node.engine.users.accounts import may_switch_user


@dataclass(frozen=True)
class AgentFolder:
    """The folders of one agent: a worker, or the scheduler of this machine."""

    worker: str
    """The name of the worker; empty: the scheduler of this machine."""
    state: Path
    runtime: Path

    @property
    def is_running(self) -> bool:
        return locks.is_locked(self.state / ("lock" if self.worker else "server.lock"))


@dataclass(frozen=True)
class RecordedRun:
    job: str
    run: int
    token: str
    fate: Fate

    @property
    def has_ended(self) -> bool:
        """True if no process of the run may be left: it has an exit, or its shim is gone."""
        return self.fate in ("finished", "lost", "reboot", "fenced")


def agent_folders(others: Sequence[str] = ()) -> list[AgentFolder]:
    """Return the folders of this user's scheduler and workers. `others` are folders that `weft worker --folder` had."""
    here = user_paths()
    found = [AgentFolder("", here.state, here.runtime)]
    for state in (here.state, SHARED_STATE) if may_switch_user() else (here.state,):
        for name in sorted(os.listdir(state / "workers")) if (state / "workers").is_dir() else ():
            folder = agent_dir(name, for_all_users=state == SHARED_STATE)
            found.append(AgentFolder(name, folder.state, folder.runtime))
    for other in others:
        if not os.path.isdir(os.path.join(other, "jobs")):
            raise InputError(f"{other} is not the folder of a worker: it has no jobs", key="--folder")
        folder = agent_dir("other", Path(other))
        found.append(AgentFolder(folder.state.name, folder.state, folder.runtime))
    return found


def recorded_runs(folder: AgentFolder) -> Iterator[RecordedRun]:
    """Yield the runs of an agent, with those of clusters that it has left."""
    booted_at = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    for jobs in [folder.state / "jobs", *sorted(folder.state.glob("jobs-of-*"))]:
        for job in _list_names(jobs):
            for run in _list_names(jobs / job) if is_valid_job_id(job) else ():
                if run.isdecimal() and int(run) > 0:
                    yield _read_run(str(jobs / job / run), job, int(run), booted_at)


def _read_run(folder: str, job: str, run: int, booted_at: float) -> RecordedRun:
    evidence = read_evidence(folder, booted_at)
    token = evidence.token or str((run_files.read_object(f"{folder}/{run_files.EXIT}") or {}).get("token", ""))
    return RecordedRun(job, run, token, judge(evidence, boot_id(), is_alive))


def _list_names(path: Path) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
