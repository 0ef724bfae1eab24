"""Drain GPUs and nodes: running jobs stay, and no new ones start there."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from weft.errors import InputError, NotFound
from weft.model import Blocked, Cordoned, Event, Evicted, NodeId, Seconds, Slots, Unblocked, Uncordoned
from weft.model.slots import format_slots
from weft.model.status import Reason
from weft.server.controller import Controller

DRAINED: Final = Reason.DRAINED
_PLACE: Final = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[([\d,]+)\]|:([\d,]+))")
HINT: Final = "name nodes or GPUs, such as n1, n1[0,1] or n1:0, or all; weft gpus lists them"


def parse_targets(controller: Controller, text: str) -> Slots:
    """Parse `n1 n2[0,1] n3:0`, `0,1` on a single node, or `all`. A node without listed GPUs stands for all of it."""
    words = _split_targets(text)
    nodes = controller.scheduler.state.resources.by_id
    living = [host.node for host in controller.scheduler.state.resources.nodes if host.alive]
    if words in ([], ["all"]):
        if len(living) == 1:
            return ((living[0].id, tuple(range(len(living[0].gpus)))),)
        if not words:
            raise InputError("no node or GPU is named", hint=HINT)
        return tuple((node, ()) for node in sorted(node.id for node in living))
    return tuple(_parse_target(controller, word, nodes, [node.id for node in living]) for word in words)


def _split_targets(text: str) -> list[str]:
    """Split at spaces and commas, except for commas between the GPUs of a node."""
    return re.findall(r"[^\s,\[\]:]+(?:\[[^\]\s]*\]|:[\d,]+)?", text)


def _parse_target(
    controller: Controller, word: str, nodes: Collection[NodeId], living: Sequence[NodeId]
) -> tuple[NodeId, tuple[int, ...]]:
    if word in nodes:
        return word, ()
    named = _PLACE.fullmatch(word)
    if named is None and word.isascii() and word.isdecimal():
        if len(living) != 1:
            raise InputError(f"GPU {word[:9]} is ambiguous on several nodes", hint=HINT)
        node, numbers = living[0], word
    elif named is not None:
        node, numbers = named[1], named[2] or named[3]
    else:
        raise (
            NotFound(f"there is no node {word[:80]!r}\n  weft nodes lists them")
            if len(living) != 1
            else InputError(f"{word[:40]!r} is neither a node nor the number of a GPU", hint=HINT)
        )
    if node not in nodes:
        raise NotFound(f"there is no node {node[:80]!r}\n  weft nodes lists them")
    chosen = [int(number) for number in numbers.split(",") if number and len(number) < 9]
    return node, tuple(controller.inventory.numbers.place(node, number) for number in chosen)


def drain(slots: Slots, now: Seconds, user: str) -> list[Event]:
    """Return the events that drain these GPUs and nodes."""
    events: list[Event] = []
    for node, gpus in slots:
        detail = f"drained by {user}"
        events += [Blocked(now, node, gpu, DRAINED, detail=detail) for gpu in gpus] or [
            Cordoned(now, node, DRAINED, detail)
        ]
    return events


def evict(controller: Controller, slots: Slots, now: Seconds) -> list[Evicted]:
    """Return the events that move the runs off these GPUs, and off nodes that are listed without GPUs."""
    events: list[Evicted] = []
    for job in controller.scheduler.state.active.values():
        # None stands for the node as a whole
        held = {(node, gpu) for node, gpus in job.slots for gpu in (*gpus, None)}
        wanted = {(node, gpu) for node, gpus in slots for gpu in gpus or (None,)}
        if held & wanted and job.status != "stopping":
            events.append(Evicted(now, job.id, job.run))
    return events


def undrain(controller: Controller, slots: Slots, now: Seconds) -> list[Event]:
    """Return the events that undo a drain, and uncordon an unhealthy node.

    Any GPU of a cordoned node uncordons the whole node.
    """
    events: list[Event] = []
    for node, gpus in slots:
        closed = controller.scheduler.state.closed
        events += [Uncordoned(now, node, why) for why in (DRAINED, Reason.NODE_UNHEALTHY) if (node, why) in closed]
        known = [gpu for other, gpu, why in controller.scheduler.state.occupants if (other, why) == (node, DRAINED)]
        events += [Unblocked(now, node, gpu, DRAINED) for gpu in gpus or known]
    return events


def describe(controller: Controller, slots: Slots) -> list[str]:
    """Return the GPUs and nodes as messages name them."""
    return [format_slots((each,)) for each in controller.inventory.numbers.renumbered(slots)]
