"""Decisions as orders to agents."""

from __future__ import annotations

from collections.abc import Mapping

from weft.core.state.job import JobState
from weft.jobspec.fields import CARRIED
from weft.model import JobId, NodeId, Task
from weft.server.nodes.gangs import nodes_of
from weft.server.nodes.registered_node import Member
from weft.wire.convert import put
from weft.wire.messages import GangMember, SchedulerMessage, StartRun, StopRun


def start_run(
    job: JobState, to: Member, members: Mapping[NodeId, Member], checkpoint: str = ""
) -> SchedulerMessage | None:
    """Its part on one node; None while it is not known how one of its nodes is reached.

    `checkpoint`: what an earlier run recorded to go on from."""
    gpus: dict[NodeId, list[int]] = {}
    for node, each in job.placed:
        gpus.setdefault(node, []).extend(each)
    gang = []
    for node in nodes_of(job.placed):
        member = members.get(node)
        if member is None or not member.spec.id:
            return None
        gang.append(GangMember(node=node, address=member.spec.address, port=member.spec.port, gpus=len(gpus[node])))
    task = job.job.task or Task()
    memory = job.allocation.memory_mb
    order = StartRun(
        epoch=to.epoch,
        job=job.id,
        run=job.run,
        user=job.job.user,
        gpus=gpus[to.id],
        gang=gang,
        rank=list(gpus).index(to.id),
        array_index=task.array_index,
        array_size=task.array_size,
        checkpoint=checkpoint,
    )
    for field in CARRIED:
        if field.key != "memory":  # what was measured may differ from what was asked for
            put(order, field.launch, field.of(job.job))
    order.memory_mb = max(memory, default=0) if isinstance(memory, tuple) else memory
    return SchedulerMessage(start=order)


def stop_run(job: JobId, run: int, to: Member, why: str, grace_s: float | None = None) -> SchedulerMessage:
    return SchedulerMessage(stop=StopRun(epoch=to.epoch, job=job, run=run, why=why, grace_s=grace_s))
