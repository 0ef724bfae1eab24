"""Facts as lines for people. Facts that only the scheduler needs have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from weft.model import (
    AdminAction,
    AllocationEnded,
    AllocationRequested,
    Blocked,
    Cancelled,
    Continued,
    Cordoned,
    Deployed,
    DrainReplica,
    Edited,
    Evicted,
    Exited,
    Fact,
    Held,
    Move,
    NodeEndChanged,
    NodeJoined,
    NodeLost,
    Paused,
    Purged,
    Ready,
    Released,
    Resized,
    Resumed,
    Rewoven,
    Start,
    Stop,
    Submitted,
    Suspended,
    Unblocked,
    Uncordoned,
    Undeployed,
    Unready,
    Unwoven,
)
from weft.model.slots import format_slots
from weft.views.answers.changes import EventView
from weft.views.from_state.gpu_numbers import GpuNumbers
from weft.views.from_state.timestamps import iso

MAX_TEXT_CHARS: Final = 200


def describe(fact: Fact, numbers: GpuNumbers) -> EventView | None:
    """Return the line for a fact; None: it has none. `numbers` are the GPU numbers that users know."""
    write = TEXTS.get(type(fact))
    if write is None:
        return None
    job, node = getattr(fact, "job", ""), getattr(fact, "node", "")
    return EventView(
        at=fact.at, kind=type(fact).__name__, job=job if isinstance(job, str) else job.id,
        node=node if isinstance(node, str) else node.id, text=write(fact, numbers)[:MAX_TEXT_CHARS],
    )  # fmt: skip


def _submitted(fact: Submitted, _: GpuNumbers) -> str:
    job = fact.job
    return f"{job.name or 'a job'} of {job.user or 'no user'} is submitted: {_gpus(job.gpus)}"


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"


def _start(fact: Start, numbers: GpuNumbers) -> str:
    woven = f", woven with {', '.join(name for name in fact.weave if name != fact.job)}" if len(fact.weave) > 1 else ""
    return f"run {fact.run} starts on {format_slots(numbers.renumbered(fact.slots))}{woven}"


def _exited(fact: Exited, _: GpuNumbers) -> str:
    code = f" with code {fact.code}" if fact.code else ""
    why = f" ({fact.why})" if fact.why else ""
    return f"run {fact.run} is {fact.how}{code}{why}"


def _blocked(fact: Blocked, numbers: GpuNumbers) -> str:
    return f"GPU {numbers.number(fact.node, fact.gpu)} is blocked: {fact.why} {fact.detail}".rstrip()


def _action(fact: AdminAction, _: GpuNumbers) -> str:
    options = " ".join(f"{name}={value}" for name, value in fact.options)
    return f"{fact.who}: {fact.verb} {options}".rstrip()


def _rewoven(fact: Rewoven, _: GpuNumbers) -> str:
    others = [name for name in fact.weave if name != fact.job]
    return f"takes turns with {', '.join(others)}" if others else "runs alone again"


TEXTS: Final[dict[type, Callable[[Any, GpuNumbers], str]]] = {
    Submitted: _submitted,
    Start: _start,
    Exited: _exited,
    Stop: lambda fact, _: f"run {fact.run} stops: {fact.why}",
    Cancelled: lambda *_: "cancelled",
    Held: lambda fact, _: "stopped early: other trials do better" if fact.why else "held",
    Released: lambda *_: "released",
    Suspended: lambda fact, _: f"run {fact.run} is suspended",
    Continued: lambda fact, _: f"run {fact.run} continues",
    Edited: lambda *_: "edited",
    Evicted: lambda fact, _: f"run {fact.run} is moved off its GPUs",
    Purged: lambda fact, _: f"{len(fact.jobs)} ended jobs are removed",
    Paused: lambda fact, _: f"no new jobs start: {fact.why} {fact.detail}".rstrip(),
    Resumed: lambda fact, _: f"jobs start again: {fact.why} is over",
    NodeJoined: lambda fact, _: f"joined with {_gpus(len(fact.node.gpus))}",
    NodeLost: lambda *_: "lost",
    NodeEndChanged: lambda fact, _: f"leaves at another time than before: {iso(fact.until)}",
    Cordoned: lambda fact, _: f"cordoned: {fact.why} {fact.detail}".rstrip(),
    Uncordoned: lambda fact, _: f"uncordoned: {fact.why} is over",
    Blocked: _blocked,
    Unblocked: lambda fact, numbers: f"GPU {numbers.number(fact.node, fact.gpu)} is free again: {fact.why} is over",
    AdminAction: _action,
    Rewoven: _rewoven,
    Unwoven: lambda fact, _: f"takes no more turns: {fact.why}",
    Deployed: lambda fact, _: f"service {fact.service.name} version {fact.service.version} is deployed",
    Undeployed: lambda fact, _: f"service {fact.service} is undeployed",
    Resized: lambda fact, _: f"service {fact.service} is to have {fact.replicas} replicas: {fact.why}",
    Ready: lambda fact, _: f"answers requests at {fact.address}",
    Unready: lambda fact, _: f"is not ready: {fact.why}",
    DrainReplica: lambda fact, _: f"gets no new requests: {fact.why}",
    Move: lambda fact, numbers: f"moves to {format_slots(numbers.renumbered(fact.slots)) or 'other GPUs'}",
    AllocationRequested: lambda fact, _: f"a node is requested from pool {fact.pool}",
    AllocationEnded: lambda fact, _: f"an allocation of pool {fact.pool} ended: {fact.how}",
}
