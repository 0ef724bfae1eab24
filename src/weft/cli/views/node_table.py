"""How a node stands, in a few words: for `weft nodes` and `weft monitor`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from weft.cli.listing import Cell
from weft.cli.text import clock

STATES: Final = {"connected": ("UP", "green"), "silent": ("SILENT", "yellow"), "lost": ("LOST", "red")}
BY_SILENCE: Final = "ReqNodeNotAvail"
"""Why a silent node is closed: that it is silent says as much."""
_NUMBER: Final = re.compile(r"(\d+)")
Node = Mapping[str, Any]


def in_order(nodes: Iterable[Node]) -> list[Node]:
    """By name, as people count: n2 before n10."""
    return sorted(nodes, key=lambda node: _parts(node["node"]))


def _parts(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _NUMBER.split(name)]


def is_cluster(nodes: Iterable[Node]) -> bool:
    """Whether they are those of a cluster, which are heard of now and then."""
    return any("state" in node for node in nodes)


def standing(node: Node) -> str:
    return str(node.get("state") or ("connected" if node["alive"] else "lost"))


def state(node: Node) -> Cell:
    """UP, SILENT or LOST, and in brackets what keeps jobs away, or when it counts as lost."""
    word, colour = STATES[standing(node)]
    notes = [why for why in node.get("closed", ()) if why != BY_SILENCE]
    if node.get("lost_in_s") is not None:
        notes.append(f"lost in {clock(node['lost_in_s'])}")
    return Cell(f"{word} ({', '.join(notes)})", "yellow") if notes else Cell(word, colour)


def beat(node: Node) -> Cell:
    """When it was last heard of."""
    beat_s = node.get("beat_s")
    if beat_s is None:
        return Cell("-")
    return Cell(f"{beat_s:.0f} s ago" if beat_s < 100 else f"{clock(beat_s)} ago")


def load(node: Node) -> Cell:
    value = node.get("load")
    return Cell("-" if value is None else f"{value:.1f}")


def taken(node: Node, used: str, there: str) -> Cell:
    """What is not counted is a dash."""
    return Cell(f"{node[used]}/{node[there]}" if node[there] else "-")
