"""Nodes and their GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.model.ids import NodeId, Seconds

CONTAINERS: Final = ("containers", "yes")
"""The label of nodes whose workers run containers. Jobs with an image need it in a cluster."""


@dataclass(frozen=True, slots=True)
class Gpu:
    model: str = ""
    memory_mb: int = 32768


@dataclass(frozen=True, slots=True)
class Node:
    id: NodeId
    gpus: tuple[Gpu, ...]
    cpus: int = 0
    """0: not counted."""
    ram_mb: int = 0
    """0: not counted."""
    switch: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    disk_id: str = ""
    """The id of the disk with the claims of its runs. The core never reads it."""
    until: Seconds | None = None
    """When the node leaves, such as at the end of its allocation; None: it stays."""
