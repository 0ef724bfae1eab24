"""Slots (GPUs of nodes) as text, and messages that contain slots.

The core counts the GPUs of a node from 0, but a driver may number them differently. So a message carries slots as
values, and the code that prints it chooses the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from weft.model.ids import NodeId, Slots

Message = tuple[str | Slots, ...]
"""Parts of a message in printed order: text and slots."""
Renumber = Callable[[Slots], Slots]
_PART: Final = re.compile(r"([^,\[\]\s]+)(?:\[(\d+(?:,\d+)*)\])?(?:,|$)")
_NUMBERED: Final = re.compile(r"(.*?)(\d{1,9})", re.ASCII)


def format_slots(slots: Slots, separator: str = ",") -> str:
    """Return `n1[0,1],n2[0]`; a node without GPUs is its name alone."""
    return separator.join(f"{node}[{','.join(map(str, gpus))}]" if gpus else node for node, gpus in slots)


def nodes_of(slots: Slots) -> tuple[NodeId, ...]:
    """Return the nodes of an allocation in rank order."""
    return tuple(dict.fromkeys(node for node, _ in slots))


def shorten_slots(slots: Slots) -> str:
    """Return the nodes of a gang in order, as Slurm writes them: `n[3-4,8,10]`."""
    numbered: dict[tuple[str, int], list[int]] = {}
    others: list[str] = []
    nodes = sorted({node for node, _ in slots})
    matches = [_NUMBERED.fullmatch(node) for node in nodes]
    padded = {(match[1], len(match[2])) for match in matches if match is not None and match[2].startswith("0")}
    for node, match in zip(nodes, matches, strict=True):
        if match is None:
            others.append(node)
            continue
        key = match[1], len(match[2])
        numbered.setdefault(key if key in padded else (match[1], 0), []).append(int(match[2]))
    found = [_name_nodes(prefix, width, sorted(numbers)) for (prefix, width), numbers in numbered.items()]
    return ",".join(found + others)


def _name_nodes(prefix: str, width: int, numbers: list[int]) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [f"{low:0{width}}" if low == high else f"{low:0{width}}-{high:0{width}}" for low, high in spans]
    return f"{prefix}{texts[0]}" if len(numbers) == 1 else f"{prefix}[{','.join(texts)}]"


def parse_slots(text: str) -> Slots:
    """Return the slots that `format_slots` printed; raise ValueError for any other text."""
    found = []
    at = 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise ValueError(f"{text!r} names no GPUs")
        found.append((part[1], tuple(map(int, part[2].split(","))) if part[2] else ()))
        at = part.end()
    return tuple(found)


def format_message(message: Message, renumber: Renumber | None = None) -> str:
    """Return the text, with GPUs renumbered by `renumber`."""
    return "".join(
        part if isinstance(part, str) else format_slots(renumber(part) if renumber is not None else part, ", ")
        for part in message
    )
