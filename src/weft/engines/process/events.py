"""What the engine tells its owner about runs. `at` is the wall time at which it happened."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.engines.process.shim.process_id import Identity
from weft.model import JobId


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The command works. Told again for every run that is adopted alive."""

    at: float
    job: JobId
    run: int
    leader: Identity
    shim: Identity


@dataclass(frozen=True, slots=True)
class RunExited:
    """The run is over, and no process of it is left."""

    at: float
    job: JobId
    run: int
    code: int | None = None
    signal: int | None = None
    why: str = ""
    """Empty: it ended by itself. Else why it was made to, or what went wrong: see `weft.engines.process.exit_rules`."""
    detail: str = ""
    done: bool = False
    """It said itself that its work was complete."""
    started_at: float = 0.0
    """0: the command never started."""
    ran_s: float = 0.0
    """By a clock that does not jump."""
    cpu_s: float = 0.0
    shim_cpu_s: float = 0.0
    max_rss_mb: int = 0
    leftovers: int = 0
    """Processes that were still there when the command had ended."""


Report = RunStarted | RunExited


def read_identity(value: object) -> Identity | None:
    match value:
        case [str(boot), int(pid), int(start)]:
            return Identity(boot, pid, start)
    return None


def read_started(body: Mapping[str, Any]) -> RunStarted | None:
    """From `started.json` or the bell; None: it is no such record."""
    if body.get("is") != "started":
        return None
    leader, shim = read_identity(body.get("leader")), read_identity(body.get("shim"))
    match body:
        case {"job": str(job), "run": int(run), "at": float(at)} if leader and shim and math.isfinite(at):
            return RunStarted(at, job, run, leader, shim)
    return None


def read_exited(body: Mapping[str, Any]) -> RunExited | None:
    """From `exit.json` or the bell; None: it is no such record."""
    if body.get("is") != "exited":
        return None
    try:
        return RunExited(
            at=float(body["at"]),
            job=str(body["job"]),
            run=int(body["run"]),
            code=_whole(body.get("code")),
            signal=_whole(body.get("signal")),
            why=str(body.get("why", "")),
            detail=str(body.get("detail", "")),
            done=body.get("done") is True,
            started_at=float(body.get("started_at", 0.0)),
            ran_s=float(body.get("ran_s", 0.0)),
            cpu_s=float(body.get("cpu_s", 0.0)),
            shim_cpu_s=float(body.get("shim_cpu_s", 0.0)),
            max_rss_mb=int(body.get("max_rss_mb", 0)),
            leftovers=int(body.get("leftovers", 0)),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _whole(value: object) -> int | None:
    return None if value is None else int(str(value))
