"""The messages that tell agents to start and stop runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.access.jobspec.fields import CARRIED
from weft.access.wire.convert import put
from weft.access.wire.messages import GangMember, ReplicaHealth, SchedulerMessage, StartRun, StopRun, SuspendRun, Weave
from weft.model import WHOLE, Health, Job, JobId, NodeId, Start, Task
from weft.model.slots import nodes_of
from weft.node.care.restore import to_record
from weft.scheduling.core.state.job import JobState
from weft.server.nodes.registered_node import RegisteredNode


def start_run(
    job: JobState,
    to: RegisteredNode,
    members: Mapping[NodeId, RegisteredNode],
    checkpoint: str = "",
    weave: Weave | None = None,
    health: Health | None = None,
) -> SchedulerMessage | None:
    """Return the message that starts the part of a run on one node.

    None: the address of one of its nodes is not known yet. `checkpoint` is what an earlier run recorded to resume from.
    """
    gpus: dict[NodeId, list[int]] = {}
    for node, each in job.placed:
        gpus.setdefault(node, []).extend(each)
    gang = []
    for node in nodes_of(job.placed):
        member = members.get(node)
        if member is None or not member.spec.id:
            return None
        gang.append(GangMember(node=node, address=member.spec.address, port=member.spec.port, gpus=len(gpus[node])))
    message = launch_message(job.job, job.run, gpus[to.id], job.allocation.memory_mb.max)
    put_share(message, job)
    message.epoch, message.rank, message.checkpoint = to.epoch, list(gpus).index(to.id), checkpoint
    message.gang.extend(gang)
    start = Start(job.started_at, job.id, job.run, job.placed, job.share, job.weave)
    message.record = to_record(job.job, start)
    if weave is not None:
        message.weave.CopyFrom(weave)
    put(message, "health", health_message(health))
    return SchedulerMessage(start=message)


def launch_message(job: Job, run: int, gpus: Sequence[int], memory_mb: int) -> StartRun:
    """Return the fields of a job that a node needs to start its run. `memory_mb` is the allocation per GPU."""
    task = job.task or Task()
    message = StartRun(
        job=job.id,
        run=run,
        user=job.user,
        gpus=gpus,
        array_index=task.array_index,
        array_size=task.array_size,
        array_first=task.array_first,
        array_last=task.array_last,
    )
    parts = max(len(gpus), 1)
    message.cpu_limit = task.cpu_limit * parts
    of_this_part = {"memory": memory_mb, "mem": job.ram_mb * parts}
    for field in CARRIED:
        put(message, field.launch, of_this_part[field.key] if field.key in of_this_part else field.of(job))
    return message


def health_message(health: Health | None) -> ReplicaHealth | None:
    """Return the probes of a replica; None: the run is no replica."""
    if health is None:
        return None
    return ReplicaHealth(
        path=health.path,
        start_within_s=health.start_within_s,
        every_s=health.every_s,
        fails=health.fails,
        warmup_path=health.warmup_path,
        warmup_body=health.warmup_body,
        warmup_requests=health.warmup_requests,
    )


def put_share(message: StartRun, job: JobState) -> None:
    """Set the share of a run of its GPUs, unless it has them alone."""
    if job.share != WHOLE and job.gpus:
        message.gpu_share, message.gpu_request = job.share.limit, job.share.request


def suspend_run(job: JobId, run: int, to: RegisteredNode, suspended: bool) -> SchedulerMessage:
    return SchedulerMessage(suspend=SuspendRun(epoch=to.epoch, job=job, run=run, suspended=suspended))


def stop_run(job: JobId, run: int, to: RegisteredNode, why: str, grace_s: float | None = None) -> SchedulerMessage:
    return SchedulerMessage(stop=StopRun(epoch=to.epoch, job=job, run=run, why=why, grace_s=grace_s))
