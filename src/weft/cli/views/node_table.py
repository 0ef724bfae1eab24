"""Tables of nodes, for `weft nodes` and `weft monitor`: the fields, their format, and the colours of states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from weft.cli.tables import Cell, Column
from weft.model.status import Reason
from weft.text import format_clock, natural

if TYPE_CHECKING:
    from weft.views.answers.nodes import GpuView, NodeView

STATES: Final = {"connected": ("UP", "green"), "silent": ("SILENT", "yellow"), "lost": ("LOST", "red")}
SILENCE_REASON: Final = Reason.NODE_SILENT
"""The reason that closes a silent node. It is not printed: the state already says SILENT."""
N = TypeVar("N", "NodeView", "GpuView")


def sort_by_name(nodes: Iterable[N]) -> list[N]:
    """Sort by name in natural order: n2 before n10."""
    return sorted(nodes, key=lambda node: natural(node.node))


def is_cluster(nodes: Iterable[NodeView]) -> bool:
    """Return whether these are nodes of a cluster, which send heartbeats."""
    return any(node.state is not None for node in nodes)


def state_name(node: NodeView) -> str:
    return node.state or ("connected" if node.alive else "lost")


def has_left(node: NodeView) -> bool:
    """Return whether the worker of this node has said goodbye and is gone."""
    return state_name(node) == "lost" and Reason.NODE_LEAVING in node.closed


def state_cell(node: NodeView) -> Cell:
    """Return UP, SILENT, LOST or LEFT, and in brackets what keeps jobs away and when a silent node counts as lost."""
    word, colour = STATES[state_name(node)]
    if has_left(node):
        word, colour = "LEFT", "bright_black"
    notes = [why for why in node.closed if why != SILENCE_REASON and not has_left(node)]
    if node.unhealthy:
        notes[notes.index(Reason.NODE_UNHEALTHY)] = f"{Reason.NODE_UNHEALTHY}: {node.unhealthy}"
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


def is_blocked(gpu: GpuView) -> bool:
    """Return whether no job may use the GPU. A foreign process that takes a part of its memory leaves the rest."""
    return any(block.memory_mb is None or block.memory_mb >= gpu.memory_mb for block in gpu.blocked)


class Field(NamedTuple):
    column: Column
    show: Callable[[NodeView], Cell]


FIELDS: Final = {
    "node": Field(Column("NODE"), lambda node: Cell(node.node)),
    "worker": Field(Column("WORKER", max_width=24), lambda node: Cell(node.node)),
    "state": Field(Column("ST"), state_cell),
    "beat": Field(Column("BEAT", right=True), heartbeat_cell),
    "load": Field(Column("LOAD", right=True), load_cell),
    "jobs": Field(Column("JOBS", right=True), lambda node: Cell(str(node.jobs))),
    "gpus": Field(Column("GPUS", right=True), lambda node: Cell(f"{node.busy}/{node.gpus}")),
    "cpus": Field(Column("CPUS", right=True), lambda node: usage_cell(node.cpus_used, node.cpus)),
    "ram": Field(Column("RAM MB", right=True), lambda node: usage_cell(node.ram_used_mb, node.ram_mb)),
}
MACHINES: Final = ("node", "state", "jobs", "gpus", "cpus", "ram")
"""The fields of `weft nodes` on one machine, which sends no heartbeats."""
MEMBERS: Final = ("node", "state", "beat", "load", "jobs", "gpus", "cpus", "ram")
"""The fields of `weft nodes` on a cluster."""
WORKERS: Final = ("worker", "state", "beat", "load", "gpus", "jobs", "cpus", "ram")
"""The fields of `weft monitor`."""


def table(nodes: Iterable[NodeView], names: Sequence[str]) -> tuple[list[Column], list[list[Cell]]]:
    return [FIELDS[name].column for name in names], [[FIELDS[name].show(node) for name in names] for node in nodes]
