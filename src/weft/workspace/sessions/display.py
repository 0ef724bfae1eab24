"""Opens and closes the sessions of a workspace as its tasks start and end. It has no state to lose."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from weft.access.endpoints.paths import Paths
from weft.node.engine.shim import run_files
from weft.views.answers.jobs import JobDetailView
from weft.workspace.config import Config
from weft.workspace.sessions.backends import Sessions, session_name
from weft.workspace.sessions.tags import NO_VALUE, Tag, state_id, tag_of
from weft.workspace.tasks import NAME_PARAM

MAX_LOG_LINES: Final = "5000"
"""Lines of an existing log that a session shows."""
PASSED_VARIABLES: Final = (
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "HOME",
    "PATH",
    "PYTHONPATH",
    "TMPDIR",
    "TMUX_TMPDIR",
    "TZ",
    "WEFT_NVML_FAKE",
)
"""Variables that a session needs. Its tmux server may have been started with others."""


class SessionDisplay:
    """The sessions of a workspace, driven by facts and by lists of its jobs."""

    def __init__(self, config: Config, paths: Paths, sessions: Sessions, numbers: Sequence[int] = ()) -> None:
        """`numbers`: the numbers of the GPUs, which facts count from 0."""
        self._config, self._paths, self._sessions, self._numbers = config, paths, sessions, numbers
        self._own = tag_of(paths.state, config)
        """The tag of the scheduler's session."""
        self._names: dict[str, str] = {}
        """The config of each job of the workspace."""
        self._gpus: dict[str, int] = {}
        """The first GPU of each job."""
        self._known: dict[str, Tag | None] = {}
        """The tag of each session; None: not a session of Weft."""
        self._list_sessions()

    def _list_sessions(self) -> None:
        self._known = {session.name: Tag.parse(session.tag) for session in self._sessions.all()}

    def update(self, jobs: Sequence[JobDetailView], *, names_only: bool = False) -> None:
        """Open a session for each running job that has none. With `names_only`, leave that to the facts that follow."""
        for job in jobs:
            self._names[job.id] = job.params.get(NAME_PARAM, job.name)
            if job.last_gpus:
                self._gpus[job.id] = job.last_gpus[0]
        if names_only:
            return
        self._list_sessions()  # people close sessions
        shown = {(tag.job, tag.run) for tag in self._known.values() if tag and tag[:2] == self._own[:2]}
        for job in jobs:
            if job.status == "running" and (job.id, str(job.run)) not in shown:
                self._open(job.id, job.run)
            elif job.status == "done" and self._config.is_on("cleanup_on_complete"):
                self.close(job.id)

    def apply(self, fact: Mapping[str, Any]) -> bool:
        """Open or close sessions after a fact. Return whether the fact concerns this workspace."""
        kind = fact["fact"]
        if kind == "Submitted":
            return self._add_job(fact["job"])
        job = fact.get("job")
        if not isinstance(job, str) or job not in self._names:
            return False
        if kind == "Start":
            place = next((gpu for _, gpus in fact["slots"] for gpu in gpus), 0)
            self._gpus[job] = self._numbers[place] if place < len(self._numbers) else place
        elif kind == "Started":
            self._open(job, fact["run"])
        elif kind == "Exited" and fact["how"] == "done" and self._config.is_on("cleanup_on_complete"):
            self.close(job)
        return True

    def _add_job(self, job: Mapping[str, Any]) -> bool:
        if job.get("task", {}).get("group") != self._config.group:
            return False
        self._names[job["id"]] = dict(job.get("params", ())).get(NAME_PARAM, job.get("name", ""))
        return True

    def close(self, job: str) -> None:
        """Close the sessions of a job."""
        for name in [name for name, tag in self._known.items() if tag and tag[:3] == (*self._own[:2], job)]:
            self._close(name)

    def close_all(self) -> int:
        """Close all sessions of this workspace. Return their number."""
        self._list_sessions()
        first = [name for name, tag in self._known.items() if tag == self._own]  # it would open others meanwhile
        for name in first:
            self._sessions.close(name)
        self._list_sessions()
        rest = [name for name, tag in self._known.items() if tag and tag[:2] == self._own[:2]]
        for name in rest:
            self._sessions.close(name)
        return len({*first, *rest})

    # ---- one task

    def _open(self, job: str, run: int) -> None:
        """Show a run, in place of earlier runs of the same config on any GPU."""
        tag = self._own._replace(job=job, run=str(run))
        if tag in self._known.values():
            return
        command = viewer_command(
            run_files.run_dir(str(self._paths.jobs), job, run), f"{self._names[job]}: job {job}, run {run}"
        )
        for name in [name for name, known in self._known.items() if self._is_earlier(known, job)]:
            self._close(name)
        for name in self._candidates(job):
            if name in self._known:
                continue  # another user or program has the name
            if self._sessions.open(name, str(tag), command):
                self._known[name] = tag
                return
            self._list_sessions()  # the name was taken meanwhile, or tmux has ended
            if tag in self._known.values():
                return  # another process opened the same session

    def _close(self, name: str) -> None:
        self._sessions.close(name)
        self._known.pop(name, None)

    def _candidates(self, job: str) -> tuple[str, str]:
        """Return the name of a job's session, and the name to use if that is taken."""
        name, gpu = f"{self._config.prefix}_{self._names[job]}", f"_gpu{self._gpus.get(job, 0)}"
        return session_name(name, gpu), session_name(name, f"{gpu}_job{job}")

    def _is_earlier(self, tag: Tag | None, job: str) -> bool:
        """Return whether the tag is of an earlier run, or of an earlier job with the same config."""
        return tag is not None and tag[:2] == self._own[:2] and self._names.get(tag.job) == self._names[job]

    # ---- the scheduler's session

    def open_scheduler_session(self, since: int) -> str:
        """Open the session that shows the queue and manages the other sessions. Return its name; empty if none opens.

        `since`: the position in the journal from which it reads."""
        config = self._config
        watching = [
            "env", *(f"{name}={os.environ[name]}" for name in PASSED_VARIABLES if os.environ.get(name)),
            sys.executable, "-m", "weft", "workspace", "--dir", str(config.home), "--config", str(config.file),
            "watch", "--sessions", "--since", str(since),
        ]  # fmt: skip
        for name in self._scheduler_names():
            if name in self._known and self._known[name] != self._own:
                continue
            if name in self._known:
                self._sessions.close(name)
            if self._sessions.open(name, str(self._own), watching):
                return name
        return ""

    def scheduler_session(self) -> str:
        """Return the name of the scheduler's session; empty if there is none."""
        return next((name for name in self._scheduler_names() if self._known.get(name) == self._own), "")

    def _scheduler_names(self) -> list[str]:
        base = self._config.scheduler_session
        return [session_name(base), session_name(base, f"_{self._own.workspace[:6]}")]


def close_sessions(state: Path, sessions: Sessions) -> None:
    """Close the sessions of all workspaces of a scheduler. Their schedulers' come first: they would open others."""
    tags = [(session.name, Tag.parse(session.tag)) for session in sessions.all()]
    mine = [(name, tag) for name, tag in tags if tag is not None and tag.state == state_id(state)]
    for name, _ in sorted(mine, key=lambda each: each[1].job != NO_VALUE):
        sessions.close(name)


def viewer_command(folder: str, title: str) -> list[str]:
    """Return a command that shows the log of a run until the run ends.

    When the command ends, tmux scrolls by one line. The title, printed first, is the line that is lost."""
    log = str(Path(folder, run_files.LOG))
    started = run_files.read_object(f"{folder}/{run_files.STARTED}")
    try:
        pid = int((started or {})["leader"][1])
    except (KeyError, TypeError, ValueError, IndexError):
        following = []
    else:
        following = ["-F", f"--pid={pid}"]
    return ["sh", "-c", 'printf "%s\\n" "$0"; exec tail "$@"', title, "-n", MAX_LOG_LINES, *following, "--", log]
