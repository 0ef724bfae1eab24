"""Jobs, GPUs and nodes as the JSON that --json prints: docs/reference/json.md."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from weft.core.resources.node import Occupant
from weft.core.scheduler import Scheduler
from weft.core.state.job import ENDED, JobState
from weft.core.state.state import State
from weft.model import JobId, Seconds, Slots, Task

SCHEMA: Final = 1
CODES: Final = {
    "blocked": "PD", "waiting": "PD", "held": "H", "starting": "R", "running": "R", "stopping": "CG", "done": "CD",
    "failed": "F", "cancelled": "CA",
}  # fmt: skip
"""Slurm's two letters."""


def iso(at: Seconds | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def code(job: JobState) -> str:
    if job.status == "failed" and job.why in ("timeout", "oom"):
        return {"timeout": "TO", "oom": "OOM"}[job.why]
    if job.status == "waiting" and job.preemptions and job.run:
        return "PR"
    return CODES[job.status]


def place(slots: Slots) -> str:
    return ",".join(f"{node}[{','.join(map(str, gpus))}]" if gpus else node for node, gpus in slots)


def row(job: JobState, now: Seconds, reason: str, progress: Mapping[str, Any] | None) -> dict[str, Any]:
    """One line of the queue."""
    return {
        "id": job.id,
        "name": job.job.name,
        "user": job.job.user,
        "state": code(job),
        "status": job.status,
        "time_s": round(_time_s(job, now), 3),
        "gpus": job.gpus,
        "place": place(job.slots) if job.active else "",
        "reason": reason,
        "priority": job.job.priority,
        "run": job.run,
        "submitted": iso(job.submitted_at),
        "started": iso(job.first_start),
        "ended": iso(job.ended_at),
        "exit_code": job.code if job.status in ENDED else None,
        "progress": dict(progress) if progress else None,
    }


def detail(job: JobState, now: Seconds, reason: str, progress: Mapping[str, Any] | None) -> dict[str, Any]:
    """All that there is to know of a job, but its environment, which may hold secrets."""
    task = job.job.task or Task()
    return {
        **row(job, now, reason, progress),
        "command": list(job.job.command),
        "chdir": task.chdir,
        "params": dict(job.job.params),
        "memory_mb": job.job.memory_mb,
        "measured_mb": job.measured_mb or None,
        "cpus": job.job.cpus,
        "ram_mb": job.job.ram_mb,
        "max_jobs_per_gpu": round(1 / job.job.share.request) if job.job.share.request else None,
        "retries": job.job.retries,
        "failures": job.failures,
        "preemptions": job.preemptions,
        "requeues": job.requeues,
        "time_limit_s": task.time_limit_s,
        "after": list(job.job.after),
        "array_index": task.array_index,
        "gpu_seconds": round(job.attained(now) * job.gpus, 3),
        "last_exit_code": job.code,
        "why": job.why,
        "comment": task.comment,
        "group": task.group,
        "last_gpus": [gpu for _, gpus in job.placed for gpu in gpus],
        "last_place": place(job.placed) if job.run else "",
    }


def whereabouts(job: JobState, now: Seconds) -> str:
    """Of a job that does not wait: where it is, or how it ended."""
    if job.active:
        woven = f", woven with {', '.join(other for other in job.weave if other != job.id)}" if job.weave else ""
        where = f" on {place(job.slots)}" if job.slots else ""
        return f"run {job.run}{where} for {now - job.started_at:.0f} s{woven}"
    why = f" ({job.why})" if job.why else ""
    code = f" with code {job.code}" if job.code is not None else ""
    return f"it is {job.status}{code}{why} after {job.run} run{'s' if job.run != 1 else ''}"


def _time_s(job: JobState, now: Seconds) -> float:
    """How long its run lasts; of one that waits, how long it has waited; of one that ended, what its runs took."""
    if job.active:
        return now - job.started_at
    return job.attained_s if job.status in ENDED else now - job.waiting_since


def gpu_rows(state: State, measured: Mapping[tuple[str, int], Mapping[str, Any]]) -> list[dict[str, Any]]:
    found = []
    closed: dict[str, list[Occupant]] = {}
    for (node, why), closure in state.closed.items():
        closed.setdefault(node, []).append(Occupant(node, 0, why, None, closure.detail))
    for room in state.resources.nodes:
        for gpu, device in enumerate(room.node.gpus) if room.alive else ():
            jobs = [holder for holder in room.holders[gpu] if isinstance(holder, JobState)]
            blocks = [o for (node, index, _), o in state.occupants.items() if (node, index) == (room.node.id, gpu)]
            reserved = sum(_memory_on(job, room.node.id, gpu) for job in jobs)
            found.append(
                {
                    "node": room.node.id, "gpu": gpu, "model": device.model, "memory_mb": device.memory_mb,
                    "reserved_mb": reserved, "jobs": [job.id for job in jobs],
                    "blocked": [_blocked(o) for o in (*blocks, *closed.get(room.node.id, ()))],
                    **measured.get((room.node.id, gpu), {}),
                }
            )  # fmt: skip
    return found


def _memory_on(job: JobState, node: str, gpu: int) -> int:
    memory = job.allocation.memory_mb
    if not isinstance(memory, tuple):
        return memory
    ranks = [(node_id, g) for node_id, gpus in job.placed for g in gpus]
    return memory[ranks.index((node, gpu))]


def _blocked(occupant: Occupant) -> dict[str, Any]:
    return {"reason": occupant.why, "memory_mb": occupant.memory_mb, "detail": occupant.detail}


def node_rows(state: State, known: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """With what else is known of them. One that was lost and joined again is there as what it is now."""
    return [
        {
            "node": room.node.id, "alive": room.alive, "gpus": len(room.node.gpus),
            "busy": sum(any(isinstance(h, JobState) for h in holders) for holders in room.holders),
            "jobs": len(room.runs()), "cpus": room.node.cpus, "cpus_used": room.cpus_used, "ram_mb": room.node.ram_mb,
            "ram_used_mb": room.ram_used, "labels": dict(room.node.labels),
            "closed": [why for node, why in state.closed if node == room.node.id],
            **({"state": "lost"} if not room.alive else known.get(room.node.id, {})),
        }
        for room in state.resources.nodes if state.resources.by_id[room.node.id] is room
    ]  # fmt: skip


def first_in_line(scheduler: Scheduler) -> JobId | None:
    """Of those that wait, the first that could run here at all."""
    return next((job.id for job in scheduler.in_order() if not scheduler.impossible(job)), None)


def brief_reason(scheduler: Scheduler, job: JobState, first: JobId | None) -> str:
    """In one word, cheaply: `why` tells it in full."""
    if job.status == "held":
        return "JobHeldUser"
    if job.status == "blocked":
        if job.over_quota:
            return "Quota"
        later = "JobArrayTaskLimit" if job.begin_at is None else "BeginTime"
        return "Dependency" if job.unmet_dependencies else later
    if job.status == "waiting":
        if scheduler.impossible(job):
            return "ReqNodeNotAvail"
        return next(iter(scheduler.state.paused), "Resources" if job.id == first else "Priority")
    return job.why
