"""Opens and closes the sessions of a workspace as its tasks start and end. It keeps nothing: it may die at any time."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from weft.endpoints.paths import Paths
from weft.engines.process.shim import run_files
from weft.wire.views.jobs import JobDetailView
from weft.workspace.config import Config
from weft.workspace.session_tags import Tag, tag_of
from weft.workspace.sessions import Sessions, plain
from weft.workspace.tasks import NAME

LINES: Final = "5000"
"""Of a long log, so many are shown."""
PASSED_ON: Final = (
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
"""What a session must know and its server may not: it may have been started elsewhere."""


class Shower:
    """Facts in, sessions out."""

    def __init__(self, config: Config, paths: Paths, sessions: Sessions, numbers: Sequence[int] = ()) -> None:
        """`numbers`: what the GPUs are called that facts count from 0."""
        self._config, self._paths, self._sessions, self._numbers = config, paths, sessions, numbers
        self._own = tag_of(paths.state, config)
        self._names: dict[str, str] = {}
        """The config of each job of the workspace."""
        self._gpus: dict[str, int] = {}
        self._known: dict[str, Tag | None] = {}
        self._look()

    def _look(self) -> None:
        self._known = {session.name: Tag.read(session.tag) for session in self._sessions.all()}

    def know(self, jobs: Sequence[JobDetailView], *, quiet: bool = False) -> None:
        """The jobs as they are now: those that run get a session if they have none, unless facts will tell of them."""
        for job in jobs:
            self._names[job.id] = job.params.get(NAME, job.name)
            if job.last_gpus:
                self._gpus[job.id] = job.last_gpus[0]
        if quiet:
            return
        self._look()  # people close sessions
        shown = {(tag.job, tag.run) for tag in self._known.values() if tag and tag[:2] == self._own[:2]}
        for job in jobs:
            if job.status == "running" and (job.id, str(job.run)) not in shown:
                self._open(job.id, job.run)
            elif job.status == "done" and self._config.is_on("cleanup_on_complete"):
                self.close(job.id)

    def take(self, fact: Mapping[str, Any]) -> bool:
        """Something happened; whether it concerns this workspace."""
        kind = fact["fact"]
        if kind == "Submitted":
            return self._submitted(fact["job"])
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

    def _submitted(self, job: Mapping[str, Any]) -> bool:
        if job.get("task", {}).get("group") != self._config.group:
            return False
        self._names[job["id"]] = dict(job.get("params", ())).get(NAME, job.get("name", ""))
        return True

    def close(self, job: str) -> None:
        for name in [name for name, tag in self._known.items() if tag and tag[:3] == (*self._own[:2], job)]:
            self._close(name)

    def close_all(self) -> int:
        """All sessions of this workspace; how many they were."""
        self._look()
        first = [name for name, tag in self._known.items() if tag == self._own]  # it might open others meanwhile
        for name in first:
            self._sessions.close(name)
        self._look()
        rest = [name for name, tag in self._known.items() if tag and tag[:2] == self._own[:2]]
        for name in rest:
            self._sessions.close(name)
        return len({*first, *rest})

    # ---- one task

    def _open(self, job: str, run: int) -> None:
        """Shows a run, in the place of what an earlier one of the same config left, on whichever GPU that was."""
        tag = self._own._replace(job=job, run=str(run))
        if tag in self._known.values():
            return
        command = viewer(
            run_files.run_dir(str(self._paths.jobs), job, run), f"{self._names[job]}: job {job}, run {run}"
        )
        for name in [name for name, known in self._known.items() if self._is_earlier(known, job)]:
            self._close(name)
        for name in self._candidates(job):
            if name in self._known:
                continue  # somebody else's
            if self._sessions.open(name, str(tag), command):
                self._known[name] = tag
                return
            self._look()  # somebody took the name meanwhile, or tmux has gone
            if tag in self._known.values():
                return  # it was to show the same

    def _close(self, name: str) -> None:
        self._sessions.close(name)
        self._known.pop(name, None)

    def _candidates(self, job: str) -> tuple[str, str]:
        """The name it should have, and another where that is somebody else's."""
        name, gpu = f"{self._config.prefix}_{self._names[job]}", f"_gpu{self._gpus.get(job, 0)}"
        return plain(name, gpu), plain(name, f"{gpu}_job{job}")

    def _is_earlier(self, tag: Tag | None, job: str) -> bool:
        """Of an earlier run, or of an earlier job with the same config."""
        return tag is not None and tag[:2] == self._own[:2] and self._names.get(tag.job) == self._names[job]

    # ---- the workspace's own

    def open_own(self, since: int) -> str:
        """The session that shows the queue and keeps the others; its name, empty where there is none to be had."""
        config = self._config
        watching = [
            "env", *(f"{name}={os.environ[name]}" for name in PASSED_ON if os.environ.get(name)),
            sys.executable, "-m", "weft", "workspace", "--dir", str(config.home), "--config", str(config.file),
            "watch", "--sessions", "--since", str(since),
        ]  # fmt: skip
        for name in self._own_names():
            if name in self._known and self._known[name] != self._own:
                continue
            if name in self._known:
                self._sessions.close(name)
            if self._sessions.open(name, str(self._own), watching):
                return name
        return ""

    def own_name(self) -> str:
        """Of the session that is there."""
        return next((name for name in self._own_names() if self._known.get(name) == self._own), "")

    def _own_names(self) -> list[str]:
        base = self._config.scheduler_session
        return [plain(base), plain(base, f"_{self._own.workspace[:6]}")]


def viewer(folder: str, title: str) -> list[str]:
    """Shows the log of a run while it lives. When it ends tmux scrolls by a line: the title goes, and nothing else."""
    log = str(Path(folder, run_files.LOG))
    started = run_files.read_object(f"{folder}/{run_files.STARTED}")
    try:
        pid = int((started or {})["leader"][1])
    except (KeyError, TypeError, ValueError, IndexError):
        following = []
    else:
        following = ["-F", f"--pid={pid}"]
    return ["sh", "-c", 'printf "%s\\n" "$0"; exec tail "$@"', title, "-n", LINES, *following, "--", log]
