"""GPUs and nodes to which nothing new comes because somebody says so."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from weft.errors import InputError, NotFound
from weft.model import Blocked, Cordoned, Event, NodeId, Seconds, Slots, Unblocked, Uncordoned
from weft.model.slots import format_slots
from weft.model.status import Reason
from weft.server.controller import Controller

DRAINED: Final = Reason.DRAINED
_PLACE: Final = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[([\d,]+)\]|:([\d,]+))")
HINT: Final = "such as n1, n1[0,1] or n1:0; all: every one; see weft gpus"


def targets(controller: Controller, text: str) -> Slots:
    """What is meant by `n1 n2[0,1] n3:0`, `0,1` where there is one node, `all`; no GPUs: the node as a whole."""
    words = _words(text)
    rooms = controller.scheduler.state.resources.by_id
    living = [room.node for room in controller.scheduler.state.resources.nodes if room.alive]
    if words in ([], ["all"]):
        if len(living) == 1:
            return ((living[0].id, tuple(range(len(living[0].gpus)))),)
        if not words:
            raise InputError("of which node?", hint=HINT)
        return tuple((node.id, ()) for node in living)
    return tuple(_target(controller, word, rooms, [node.id for node in living]) for word in words)


def _words(text: str) -> list[str]:
    """Commas part words, but for those between the GPUs of a node."""
    return re.findall(r"[^\s,\[\]:]+(?:\[[^\]\s]*\]|:[\d,]+)?", text)


def _target(
    controller: Controller, word: str, rooms: Collection[NodeId], living: Sequence[NodeId]
) -> tuple[NodeId, tuple[int, ...]]:
    if word in rooms:
        return word, ()
    named = _PLACE.fullmatch(word)
    if named is None and word.isascii() and word.isdecimal():
        if len(living) != 1:
            raise InputError(f"GPU {word[:9]} of which node?", hint=HINT)
        node, numbers = living[0], word
    elif named is not None:
        node, numbers = named[1], named[2] or named[3]
    else:
        raise (
            NotFound(f"there is no node {word[:80]!r}\n  weft nodes lists them")
            if len(living) != 1
            else InputError(f"{word[:40]!r} is not the number of a GPU", hint="see weft gpus; all: every one")
        )
    if node not in rooms:
        raise NotFound(f"there is no node {node[:80]!r}\n  weft nodes lists them")
    chosen = [int(number) for number in numbers.split(",") if number and len(number) < 9]
    return node, tuple(controller.inventory.numbers.place(node, number) for number in chosen)


def drain(slots: Slots, now: Seconds, who: str) -> list[Event]:
    """Runs stay; nothing new comes."""
    events: list[Event] = []
    for node, gpus in slots:
        detail = f"drained by {who}"
        events += [Blocked(now, node, gpu, DRAINED, detail=detail) for gpu in gpus] or [
            Cordoned(now, node, DRAINED, detail)
        ]
    return events


def undrain(controller: Controller, slots: Slots, now: Seconds) -> list[Event]:
    """A node is opened with all its GPUs; one that is closed as a whole, also by any of these."""
    events: list[Event] = []
    for node, gpus in slots:
        if (node, DRAINED) in controller.scheduler.state.closed:
            events.append(Uncordoned(now, node, DRAINED))
        known = [gpu for other, gpu, why in controller.scheduler.state.occupants if (other, why) == (node, DRAINED)]
        events += [Unblocked(now, node, gpu, DRAINED) for gpu in gpus or known]
    return events


def said(controller: Controller, slots: Slots) -> list[str]:
    """As a person would."""
    return [format_slots((each,)) for each in controller.inventory.numbers.renumbered(slots)]
