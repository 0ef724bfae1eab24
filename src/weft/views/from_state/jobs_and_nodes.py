"""The jobs, GPUs and nodes of the state, as the views that answers consist of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from weft.inputs import dependencies
from weft.model import WHOLE, Job, JobId, NodeId, Seconds, Task
from weft.model.pool import is_of_pool
from weft.model.slots import Renumber, format_slots, nodes_of
from weft.model.status import ENDED, Reason
from weft.scheduling.core.reasons import WaitReasons
from weft.scheduling.core.resources.node import NodeResources, memory_held
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import JobState, weave_id
from weft.scheduling.core.state.state import State
from weft.views.answers.base import build_view
from weft.views.answers.jobs import JobDetailView, JobFields, JobView, ProgressView
from weft.views.answers.nodes import BlockView, GpuView, NodeView
from weft.views.from_state.gpu_numbers import GpuNumbers
from weft.views.from_state.measured import GpuUsage, NodeConnection
from weft.views.from_state.timestamps import iso

CODES: Final = {
    "blocked": "PD", "waiting": "PD", "held": "H", "starting": "R", "running": "R", "stopping": "CG", "done": "CD",
    "failed": "F", "cancelled": "CA",
}  # fmt: skip
"""Slurm's two letters."""
NO_USAGE: Final = GpuUsage()
NO_CONNECTION: Final = NodeConnection()
LOST: Final = NodeConnection("lost")


def code(job: JobState) -> str:
    if job.status == "failed" and job.why in ("timeout", "oom", "ram"):
        return {"timeout": "TO", "oom": "OOM", "ram": "OOM"}[job.why]
    if job.status == "waiting" and job.preemptions and job.run:
        return "PR"
    if job.suspended and job.status != "stopping":
        return "S"
    return CODES[job.status]


def job_view(job: JobState, now: Seconds, reason: str, progress: ProgressView | None, renumber: Renumber) -> JobView:
    """Return one line of the queue."""
    return build_view(JobView, dict(_fields(job, now, reason, progress, renumber)))


def _fields(job: JobState, now: Seconds, reason: str, progress: ProgressView | None, renumber: Renumber) -> JobFields:
    return {
        "id": job.id,
        "name": job.job.name,
        "user": job.job.user,
        "state": code(job),
        "status": job.status,
        "time_s": round(time_s(job, now), 3),
        "gpus": job.gpus,
        "place": format_slots(renumber(job.slots)) if job.active else "",
        "reason": reason,
        "priority": job.job.priority,
        "run": job.run,
        "submitted": iso(job.submitted_at),
        "started": iso(job.first_start),
        "ended": iso(job.ended_at),
        "exit_code": job.code if job.status in ENDED else None,
        "progress": progress,
        "group": job.job.group,
        "team": job.job.team,
    }


def job_detail(
    job: JobState, now: Seconds, reason: str, progress: ProgressView | None, numbers: GpuNumbers,
    describe: Callable[[Job, Callable[[NodeId, int], int]], dict[str, Any]],
) -> JobDetailView:  # fmt: skip
    """Return everything about a job except its environment, which may hold secrets."""
    task = job.job.task or Task()
    return JobDetailView(
        **_fields(job, now, reason, progress, numbers.renumbered),
        command=job.job.command,
        chdir=task.chdir,
        params=dict(job.job.params),
        memory_mb=job.job.memory_mb.plain(),
        measured_mb=job.measured_mb or None,
        cpus=job.job.cpus,
        ram_mb=job.job.ram_mb,
        max_jobs_per_gpu=1 if job.job.share == WHOLE else jobs_per_gpu(job.job),
        share=share_of(job.job),
        retries=job.job.retries,
        failures=job.failures,
        preemptions=job.preemptions,
        requeues=job.requeues,
        time_limit_s=task.time_limit_s,
        after=dependencies_of(job.job),
        array_index=task.array_index,
        gpu_seconds=round(job.attained(now) * job.gpus, 3),
        last_exit_code=job.code,
        why=job.why,
        detail=job.detail,
        failed_rank=job.failed_rank,
        failed_node=job.failed_node,
        comment=task.comment,
        last_gpus=numbers.numbers(job.placed),
        last_place=format_slots(numbers.renumbered(job.placed)) if job.run else "",
        last_nodes=nodes_of(job.placed) if job.run else (),
        spec=describe(job.job, numbers.number),
    )


def whereabouts(job: JobState, state: State, now: Seconds, renumber: Renumber) -> str:
    """Return where a job runs, or how it ended. The job does not wait."""
    if job.active:
        woven = f", woven with {', '.join(partners)}" if (partners := state.partners(job)) else ""
        where = f" on {format_slots(renumber(job.slots))}" if job.slots else ""
        return f"run {job.run}{where} for {now - job.started_at:.0f} s{woven}"
    why = f" ({job.why})" if job.why else ""
    code = f" with code {job.code}" if job.code is not None else ""
    if job.failed_rank is not None:
        code += f" of rank {job.failed_rank} on {job.failed_node}"
    detail = f": {job.detail}" if job.detail and job.status == "failed" else ""
    return f"it is {job.status}{code}{why} after {job.run} run{'s' if job.run != 1 else ''}{detail}"


def time_s(job: JobState, now: Seconds) -> float:
    """Return how long a job has run; of a waiting job, how long it has waited; of an ended job, what its runs took."""
    if job.active:
        return now - job.started_at
    return job.attained_s if job.status in ENDED else now - job.waiting_since


def gpu_views(state: State, measured: Mapping[tuple[str, int], GpuUsage], numbers: GpuNumbers) -> list[GpuView]:
    rows = GpuRows(state, measured, numbers)
    return [row for host in state.resources.nodes if host.alive for row in rows.of_node(host)]


class GpuRows:
    """The GPUs at one moment, each as a row."""

    def __init__(self, state: State, measured: Mapping[tuple[str, int], GpuUsage], numbers: GpuNumbers) -> None:
        self._measured, self._numbers = measured, numbers
        self._closed: dict[str, list[BlockView]] = {}
        for (node, why), closure in state.closed.items():
            self._closed.setdefault(node, []).append(BlockView(why, None, closure.detail))
        self._blocked: dict[tuple[str, int], list[BlockView]] = {}
        for (node, index, _), occupant in state.occupants.items():
            block = BlockView(occupant.why, occupant.memory_mb, occupant.detail)
            self._blocked.setdefault((node, index), []).append(block)

    def of_node(self, host: NodeResources) -> list[GpuView]:
        return [self.row(host, gpu) for gpu in range(len(host.node.gpus))]

    def row(self, host: NodeResources, gpu: int) -> GpuView:
        where, device = (host.node.id, gpu), host.node.gpus[gpu]
        jobs = [holder for holder in host.holders[gpu] if isinstance(holder, JobState)]
        usage = self._measured.get(where, NO_USAGE)
        return GpuView(
            node=host.node.id, gpu=self._numbers.number(*where), model=device.model, memory_mb=device.memory_mb,
            reserved_mb=sum(memory_held(job, *where) for job in jobs), jobs=[job.id for job in jobs],
            blocked=[*self._blocked.get(where, ()), *self._closed.get(host.node.id, ())],
            used_mb=usage.used_mb, utilisation=usage.utilisation, processes=usage.processes,
            misplaced=usage.misplaced, error=usage.error or None, shares=usage.shares,
            weave=next((woven for job in jobs if (woven := weave_id(job))), None),
        )  # fmt: skip


def node_views(state: State, known: Mapping[str, NodeConnection]) -> list[NodeView]:
    """Return the nodes with what the backend knows of them.

    A node that was lost and joined again is listed once; one of a pool that has left is not listed.
    """
    hosts = [
        host
        for host in state.resources.nodes
        if state.resources.by_id[host.node.id] is host and (host.alive or not is_of_pool(host.node))
    ]
    connections = [known.get(host.node.id, NO_CONNECTION) if host.alive else LOST for host in hosts]
    return [
        NodeView(
            node=host.node.id, alive=host.alive, gpus=len(host.node.gpus),
            busy=sum(any(isinstance(h, JobState) for h in holders) for holders in host.holders),
            jobs=len(host.runs()), cpus=host.node.cpus, cpus_used=host.cpus_used, ram_mb=host.node.ram_mb,
            ram_used_mb=host.ram_used, labels=dict(host.node.labels),
            closed=[why for node, why in state.closed if node == host.node.id],
            state=connection.state, beat_s=connection.beat_s,
            load=connection.load, address=connection.address,
            port=connection.port, version=connection.version, lost_in_s=connection.lost_in_s,
            unhealthy=getattr(state.closed.get((host.node.id, Reason.NODE_UNHEALTHY)), "detail", None),
        )
        for host, connection in zip(hosts, connections, strict=True)
    ]  # fmt: skip


def first_in_line(scheduler: Scheduler) -> JobId | None:
    """Return the first waiting job that could run here at all."""
    return next((job.id for job in scheduler.in_order() if not scheduler.impossible(job)), None)


def brief_reason(reasons: WaitReasons, job: JobState, first: JobId | None) -> str:
    """Return in one word why a job waits, or why it ended. `weft why` explains in full."""
    if job.status == "held":
        return job.held_why or Reason.HELD
    if job.status == "blocked":
        if job.over_quota:
            return Reason.QUOTA
        if job.over_group_limit:
            paused = reasons.scheduler.state.eligibility.groups.settings_of(job.job.group).paused
            return Reason.GROUP_PAUSED if paused else Reason.GROUP_LIMIT
        later = Reason.ARRAY_LIMIT if job.begin_at is None else Reason.BEGIN_TIME
        return Reason.DEPENDENCY if job.unmet_dependencies else later
    if job.status == "waiting":
        return reasons.code(job, first=job.id == first)
    return job.why


def jobs_per_gpu(job: Job) -> int | None:
    """Return K of a job that shares GPUs with K-1 others in equal parts; None: it has whole GPUs, or another share."""
    share = job.share
    if not 0 < share.request < 1 or share.limit != share.request or share.request != 1 / round(1 / share.request):
        return None
    return round(1 / share.request)


def share_of(job: Job) -> str | None:
    """Return a share that `max_jobs_per_gpu` does not express."""
    whole = job.share.request == job.share.limit == 1
    return None if whole or jobs_per_gpu(job) else f"{job.share.request:g}/{job.share.limit:g}"


def dependencies_of(job: Job) -> list[str]:
    """Return the dependencies of a job as a submitter would write them."""
    return [
        dependencies.join(word, ref)
        for word, attribute in dependencies.CONDITIONS.items()
        for ref in getattr(job, attribute)
    ]
