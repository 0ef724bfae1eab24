"""Facts about nodes and GPUs: they join, are lost, are blocked or cordoned."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from weft.model import Blocked, Cordoned, Node, NodeEndChanged, NodeId, NodeJoined, NodeLost, Unblocked, Uncordoned
from weft.model.status import Reason
from weft.scheduling.core.resources.node import Closure, NodeResources, Occupant
from weft.scheduling.core.state import node_ends

if TYPE_CHECKING:
    from weft.scheduling.core.state.state import State

MAX_CLEARED: Final = 16
"""Faults of one node that are kept after it was opened again."""


def joined(state: State, fact: NodeJoined) -> bool:
    known = state.resources.by_id.get(fact.node.id)
    if known is not None and known.alive:
        return _grow(state, known, fact.node)
    if state.pools.by_name:
        state.pools.note_joined(fact.node.id, fact.at)
    host = state.resources.join(fact.node)
    for (node, why), closure in state.closed.items():
        if node == fact.node.id:
            state.resources.close(host, closure, why)
    for key in [key for key in state.occupants if key[0] == fact.node.id]:
        if key[1] < len(fact.node.gpus):
            state.resources.occupy(state.occupants[key])
        else:  # the node has fewer GPUs now
            del state.occupants[key]
    if fact.node.until is not None:
        node_ends.limit(state, host, fact.node.until, fact.at)
    state.gpus += len(fact.node.gpus)
    state.news = True
    return True


def end_changed(state: State, fact: NodeEndChanged) -> bool:
    host = state.resources.by_id.get(fact.node)
    if host is None or not host.alive or host.node.until == fact.until:
        return False
    host.node = replace(host.node, until=fact.until)
    node_ends.limit(state, host, fact.until, fact.at)
    state.news = True
    return True


def _grow(state: State, host: NodeResources, node: Node) -> bool:
    """Add GPUs to a node that is alive. Its runs keep the GPUs they hold, which come first in the new node as well."""
    before = host.node.gpus
    if len(node.gpus) <= len(before) or node.gpus[: len(before)] != before:
        return False
    resources = state.resources
    held = [
        (job, tuple(part for part in job.slots if part[0] == node.id), job.releasing)
        for job in state.active.values()
        if any(each == node.id for each, _ in job.slots)
    ]
    occupants = [occupant for key, occupant in state.occupants.items() if key[0] == node.id]
    closures = [(why, closure) for (closed, why), closure in state.closed.items() if closed == node.id]
    for job, slots, _ in held:
        resources.release(job, slots)
        job.releasing = False
    for occupant in occupants:
        resources.free(occupant)
    for _, closure in closures:
        resources.open(host, closure)
    resources.lose(host)
    grown = resources.join(node)
    if node.until is not None:
        resources.set_end(grown, node.until, state.now)
    for why, closure in closures:
        resources.close(grown, closure, why)
    for occupant in occupants:
        resources.occupy(occupant)
    for job, slots, _ in held:
        resources.hold(job, slots)
    for job, slots, releasing in held:
        if releasing:
            job.releasing = True
            resources.begin_release(job, slots)
    state.gpus += len(node.gpus) - len(before)
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
            state.put_back(job, "lost", fact.at, "node-lost")
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
    if fact.why == Reason.NODE_UNREACHABLE:
        state.services.reach(fact.node, unreachable=True)
    elif fact.why == Reason.NODE_SILENT:
        state.services.touch()
    state.news = True
    return True


def uncordoned(state: State, fact: Uncordoned) -> bool:
    closure = state.closed.pop((fact.node, fact.why), None)
    if closure is None:
        return False
    if fact.why == Reason.NODE_UNHEALTHY:
        known = [each for each in state.cleared.get(fact.node, ()) if each != closure.detail]
        state.cleared[fact.node] = (*known, closure.detail)[-MAX_CLEARED:]
    elif fact.why == Reason.NODE_UNREACHABLE:
        state.services.reach(fact.node, unreachable=False)
    elif fact.why == Reason.NODE_SILENT:
        state.services.touch()
    host = state.resources.by_id[fact.node]
    if host.alive:
        state.resources.open(host, closure)
    state.news = True
    return True
