"""An engine with real processes in a temporary directory, and its reports."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from weft.node.engine.engine import ProcessEngine
from weft.node.engine.events import Report, RunExited, RunStarted
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.shim.process_id import Identity, is_alive, send_signal
from weft.node.engine.shim.process_tree import descendants, list_processes

R = TypeVar("R", RunStarted, RunExited)
PATIENCE_S = 20.0
PATH = ("PATH", os.environ.get("PATH", "/usr/bin:/bin"))


def launch(*argv: str, job: str = "1", run: int = 1, **more: object) -> LaunchSpec:
    return LaunchSpec(job, run, argv, **{"env": (PATH,), **more})  # type: ignore[arg-type]


def shell(script: str, *, job: str = "1", run: int = 1, **more: object) -> LaunchSpec:
    return launch("/bin/sh", "-c", script, job=job, run=run, **more)


class Desk:
    """Where the reports of one engine arrive."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = folder / "jobs"
        self.reports: list[Report] = []
        self.engine = self.another()

    def another(self) -> ProcessEngine:
        self.engine = ProcessEngine("here", self.jobs, self.folder / "runtime", self.reports.append)
        return self.engine

    def path(self, name: str, job: str = "1", run: int = 1) -> Path:
        return self.jobs / job / str(run) / name

    def log(self, job: str = "1", run: int = 1) -> str:
        return self.path("output.log", job, run).read_text(errors="replace")

    async def run(self, wanted: LaunchSpec) -> RunExited:
        self.engine.start(wanted)
        return await self.exited(wanted.job, wanted.run)

    async def started(self, job: str = "1", run: int = 1) -> RunStarted:
        return await self._first(RunStarted, job, run)

    async def exited(self, job: str = "1", run: int = 1) -> RunExited:
        return await self._first(RunExited, job, run)

    async def says(self, text: str, job: str = "1", run: int = 1) -> None:
        """Until the job has written this."""
        await until(lambda: self.path("output.log", job, run).exists() and text in self.log(job, run))

    def seen(self, kind: type[R], job: str = "1", run: int = 1) -> list[R]:
        return [r for r in self.reports if isinstance(r, kind) and (r.job, r.run) == (job, run)]

    def kill_all(self) -> None:
        """Kill every run now, with all its processes."""
        for job, run in list(self.engine.runs):
            self.engine.stop(job, run, "cancelled", 0.0)

    async def _first(self, kind: type[R], job: str, run: int) -> R:
        await until(lambda: bool(self.seen(kind, job, run)))
        return self.seen(kind, job, run)[0]


async def until(true: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def desk(folder: Path) -> AsyncIterator[Desk]:
    """An open engine; whatever still runs at the end is killed, shims included, each by its identity."""
    found = Desk(folder)
    await found.engine.open()
    try:
        yield found
    finally:
        found.kill_all()
        await until(lambda: not found.engine.runs)
        await found.engine.close()


async def stopped(root: int) -> None:
    """Wait until all processes below this one are stopped: none of them does anything from then on."""

    def states() -> set[str]:
        pids = [stat.pid for stat in descendants([root], list_processes())]
        return {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in pids}

    await until(lambda: states() in ({"T"}, {"T", "D"}))  # D: a shell whose child was stopped before its exec


def pidfds() -> int:
    """Return how many processes this one watches by a descriptor."""
    folder = "/proc/self/fd"
    return sum(_link(f"{folder}/{name}") == "anon_inode:[pidfd]" for name in os.listdir(folder))


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:  # closed since it was listed
        return ""


async def gone(who: Identity) -> None:
    await until(lambda: not is_alive(who))


def kill(who: Identity) -> None:
    assert send_signal(who, signal.SIGKILL)
