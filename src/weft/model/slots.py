"""Slots (GPUs of nodes) as text, and messages that contain slots.

The core counts the GPUs of a node from 0, but a driver may number them differently. So a message carries slots as
values, and the code that prints it chooses the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from weft.model.ids import Slots

Message = tuple[str | Slots, ...]
"""Parts of a message in printed order: text and slots."""
Renumber = Callable[[Slots], Slots]
_PART: Final = re.compile(r"([^,\[\]\s]+)(?:\[(\d+(?:,\d+)*)\])?(?:,|$)")


def format_slots(slots: Slots, separator: str = ",") -> str:
    """Return `n1[0,1],n2[0]`; a node without GPUs is its name alone."""
    return separator.join(f"{node}[{','.join(map(str, gpus))}]" if gpus else node for node, gpus in slots)


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
