"""Nodes and GPUs come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.core.resources.node import Closure, Occupant
from weft.model import Blocked, Cordoned, NodeId, NodeJoined, NodeLost, Unblocked, Uncordoned

if TYPE_CHECKING:
    from weft.core.state.state import State


def joined(state: State, fact: NodeJoined) -> bool:
    known = state.floor.by_id.get(fact.node.id)
    if known is not None and known.alive:
        return False
    room = state.floor.join(fact.node)
    for (node, why), closure in state.closed.items():
        if node == fact.node.id:
            state.floor.close(room, closure, why)
    state.gpus += len(fact.node.gpus)
    state.news = True
    return True


def lost(state: State, fact: NodeLost) -> bool:
    room = state.floor.by_id.get(fact.node)
    if room is None or not room.alive:
        return False
    for job in [job for job in state.active.values() if any(node == fact.node for node, _ in job.slots)]:
        gone = tuple(part for part in job.slots if part[0] == fact.node)
        rest = tuple(part for part in job.slots if part[0] != fact.node)
        state.floor.release(job, gone, last=not rest)
        job.slots = rest
        if rest:
            job.lost = True
            if job.status != "stopping":
                state.orphans[job.id] = job
        else:
            state.put_back(job, "lost", fact.at)
    _unreserve(state, fact.node)
    for key in [key for key in state.occupants if key[0] == fact.node]:
        state.floor.free(state.occupants.pop(key))
    for (node, _), closure in state.closed.items():
        if node == fact.node:
            state.floor.open(room, closure)
    state.floor.lose(room)
    state.gpus -= len(room.node.gpus)
    state.news = True
    return True


def _unreserve(state: State, node: NodeId) -> None:
    for job in state.waiting.values():
        if job.reserved:
            job.reserved = tuple(part for part in job.reserved if part[0] != node)


def blocked(state: State, fact: Blocked) -> bool:
    room = state.floor.by_id.get(fact.node)
    if room is None or not room.alive or not 0 <= fact.gpu < len(room.node.gpus):
        return False
    key = (fact.node, fact.gpu, fact.why)
    before = state.occupants.pop(key, None)
    if before is not None:
        state.floor.free(before)
    occupant = state.occupants[key] = Occupant(fact.node, fact.gpu, fact.why, fact.memory_mb, fact.detail)
    state.floor.occupy(occupant)
    state.news = True
    return True


def unblocked(state: State, fact: Unblocked) -> bool:
    occupant = state.occupants.pop((fact.node, fact.gpu, fact.why), None)
    if occupant is None:
        return False
    state.floor.free(occupant)
    state.news = True
    return True


def cordoned(state: State, fact: Cordoned) -> bool:
    room = state.floor.by_id.get(fact.node)
    if room is None:
        return False
    known = state.closed.get((fact.node, fact.why))
    if known is not None:
        known.detail = fact.detail
        return True
    closure = state.closed[fact.node, fact.why] = Closure(fact.detail)
    if room.alive:
        state.floor.close(room, closure, fact.why)
    state.news = True
    return True


def uncordoned(state: State, fact: Uncordoned) -> bool:
    closure = state.closed.pop((fact.node, fact.why), None)
    if closure is None:
        return False
    room = state.floor.by_id[fact.node]
    if room.alive:
        state.floor.open(room, closure)
    state.news = True
    return True
