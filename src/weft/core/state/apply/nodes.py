"""Facts about nodes and GPUs: they join, are lost, are blocked or cordoned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.core.resources.node import Closure, Occupant
from weft.model import Blocked, Cordoned, NodeId, NodeJoined, NodeLost, Unblocked, Uncordoned
from weft.model.status import Reason

if TYPE_CHECKING:
    from weft.core.state.state import State


def joined(state: State, fact: NodeJoined) -> bool:
    known = state.resources.by_id.get(fact.node.id)
    if known is not None and known.alive:
        return False
    host = state.resources.join(fact.node)
    for (node, why), closure in state.closed.items():
        if node == fact.node.id:
            state.resources.close(host, closure, why)
    for key in [key for key in state.occupants if key[0] == fact.node.id]:
        if key[1] < len(fact.node.gpus):
            state.resources.occupy(state.occupants[key])
        else:  # the node has fewer GPUs now
            del state.occupants[key]
    state.gpus += len(fact.node.gpus)
    state.news = True
    return True


def lost(state: State, fact: NodeLost) -> bool:
    host = state.resources.by_id.get(fact.node)
    if host is None or not host.alive:
        return False
    for job in [job for job in state.active.values() if any(node == fact.node for node, _ in job.slots)]:
        gone = tuple(part for part in job.slots if part[0] == fact.node)
        rest = tuple(part for part in job.slots if part[0] != fact.node)
        state.resources.release(job, gone, last=not rest)
        job.slots = rest
        if rest:
            job.lost = True
            if job.status != "stopping":
                state.orphans[job.id] = job
        else:
            state.put_back(job, "lost", fact.at)
    _unreserve(state, fact.node)
    for key in [key for key in state.occupants if key[0] == fact.node]:
        state.resources.free(state.occupants[key])
        if key[2] != Reason.DRAINED:  # a drained GPU stays drained until an admin undoes it
            del state.occupants[key]
    for (node, _), closure in state.closed.items():
        if node == fact.node:
            state.resources.open(host, closure)
    state.resources.lose(host)
    state.gpus -= len(host.node.gpus)
    state.news = True
    return True


def _unreserve(state: State, node: NodeId) -> None:
    for job in state.waiting.values():
        if job.reserved:
            job.reserved = tuple(part for part in job.reserved if part[0] != node)


def blocked(state: State, fact: Blocked) -> bool:
    host = state.resources.by_id.get(fact.node)
    if host is None or not 0 <= fact.gpu < len(host.node.gpus) or not (host.alive or fact.why == Reason.DRAINED):
        return False
    key = (fact.node, fact.gpu, fact.why)
    before = state.occupants.pop(key, None)
    if before is not None and host.alive:
        state.resources.free(before)
    occupant = state.occupants[key] = Occupant(fact.node, fact.gpu, fact.why, fact.memory_mb, fact.detail)
    if host.alive:
        state.resources.occupy(occupant)
    state.news = True
    return True


def unblocked(state: State, fact: Unblocked) -> bool:
    occupant = state.occupants.pop((fact.node, fact.gpu, fact.why), None)
    if occupant is None:
        return False
    if state.resources.by_id[fact.node].alive:
        state.resources.free(occupant)
    state.news = True
    return True


def cordoned(state: State, fact: Cordoned) -> bool:
    host = state.resources.by_id.get(fact.node)
    if host is None:
        return False
    known = state.closed.get((fact.node, fact.why))
    if known is not None:
        known.detail = fact.detail
        return True
    closure = state.closed[fact.node, fact.why] = Closure(fact.detail)
    if host.alive:
        state.resources.close(host, closure, fact.why)
    state.news = True
    return True


def uncordoned(state: State, fact: Uncordoned) -> bool:
    closure = state.closed.pop((fact.node, fact.why), None)
    if closure is None:
        return False
    host = state.resources.by_id[fact.node]
    if host.alive:
        state.resources.open(host, closure)
    state.news = True
    return True
