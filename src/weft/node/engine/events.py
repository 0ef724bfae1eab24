"""The engine's reports about runs. `at` is wall time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.model import JobId
from weft.node.engine.shim.process_id import Identity


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The command has started. Also reported for every run that is adopted alive."""

    at: float
    job: JobId
    run: int
    leader: Identity
    shim: Identity


@dataclass(frozen=True, slots=True)
class RunExited:
    """The run has ended, and none of its processes is left."""

    at: float
    job: JobId
    run: int
    code: int | None = None
    signal: int | None = None
    why: str = ""
    """Empty: the command ended by itself. Otherwise the reason of the stop or the failure: see `exit_rules`."""
    detail: str = ""
    done: bool = False
    """The job created its done file: its work is complete."""
    started_at: float = 0.0
    """0: the command never started."""
    ran_s: float = 0.0
    """Duration on a monotonic clock."""
    cpu_s: float = 0.0
    shim_cpu_s: float = 0.0
    max_rss_mb: int = 0
    leftovers: int = 0
    """Processes that were left when the command had ended."""


Report = RunStarted | RunExited


def read_identity(value: object) -> Identity | None:
    match value:
        case [str(boot), int(pid), int(start)]:
            return Identity(boot, pid, start)
    return None


def read_started(body: Mapping[str, Any]) -> RunStarted | None:
    """Read a record from `started.json` or a notification; return None if it is not one."""
    if body.get("is") != "started":
        return None
    leader, shim = read_identity(body.get("leader")), read_identity(body.get("shim"))
    match body:
        case {"job": str(job), "run": int(run), "at": float(at)} if leader and shim and math.isfinite(at):
            return RunStarted(at, job, run, leader, shim)
    return None


def read_exited(body: Mapping[str, Any]) -> RunExited | None:
    """Read a record from `exit.json` or a notification; return None if it is not one."""
    if body.get("is") != "exited":
        return None
    try:
        return RunExited(
            at=float(body["at"]),
            job=str(body["job"]),
            run=int(body["run"]),
            code=_optional_int(body.get("code")),
            signal=_optional_int(body.get("signal")),
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


def _optional_int(value: object) -> int | None:
    return None if value is None else int(str(value))
