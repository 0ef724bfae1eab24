"""Cells about nodes, for `weft nodes` and `weft monitor`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from weft.cli.tables import Cell
from weft.cli.text import format_clock
from weft.model.status import Reason

if TYPE_CHECKING:
    from weft.wire.views.nodes import GpuView, NodeView

STATES: Final = {"connected": ("UP", "green"), "silent": ("SILENT", "yellow"), "lost": ("LOST", "red")}
SILENCE_REASON: Final = Reason.NODE_SILENT
"""The reason that closes a silent node. It is not printed: the state already says SILENT."""
_NUMBER: Final = re.compile(r"(\d+)")
N = TypeVar("N", "NodeView", "GpuView")


def sort_by_name(nodes: Iterable[N]) -> list[N]:
    """Sort by name in natural order: n2 before n10."""
    return sorted(nodes, key=lambda node: _parts(node.node))


def _parts(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _NUMBER.split(name)]


def is_cluster(nodes: Iterable[NodeView]) -> bool:
    """Return whether these are nodes of a cluster, which send heartbeats."""
    return any(node.state is not None for node in nodes)


def state_name(node: NodeView) -> str:
    return node.state or ("connected" if node.alive else "lost")


def state_cell(node: NodeView) -> Cell:
    """Return UP, SILENT or LOST, and in brackets what keeps jobs away and when a silent node counts as lost."""
    word, colour = STATES[state_name(node)]
    notes = [why for why in node.closed if why != SILENCE_REASON]
    if node.lost_in_s is not None:
        notes.append(f"lost in {format_clock(node.lost_in_s)}")
    return Cell(f"{word} ({', '.join(notes)})", "yellow") if notes else Cell(word, colour)


def heartbeat_cell(node: NodeView) -> Cell:
    """Return the age of the last heartbeat."""
    beat_s = node.beat_s
    if beat_s is None:
        return Cell("-")
    return Cell(f"{beat_s:.0f} s ago" if beat_s < 100 else f"{format_clock(beat_s)} ago")


def load_cell(node: NodeView) -> Cell:
    value = node.load
    return Cell("-" if value is None else f"{value:.1f}")


def usage_cell(used: int, there: int) -> Cell:
    """Return used and total, or a dash for a resource that is not counted."""
    return Cell(f"{used}/{there}" if there else "-")
