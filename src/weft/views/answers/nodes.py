"""Answers about GPUs and nodes, for `weft gpus`, `nodes` and `monitor`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from weft.views.answers.base import View, field
from weft.views.answers.jobs import JobView, QueryAnswer, QueueView


class BlockView(View):
    """The reason why a GPU cannot be used."""

    reason: str = ""
    memory_mb: int | None = None
    detail: str = ""


class ShareView(View):
    """A run on a GPU that it shares, and how far its share is enforced."""

    job: str = ""
    kind: str = ""
    """training or inference."""
    request: float = 1.0
    limit: float = 1.0
    busy: bool = False
    """A batch runs now."""
    rate: float = 1.0
    """The part of the GPU that training had in the last contention."""
    enforced: Sequence[str] = ()
    """Limits that hold whatever the program of the run does."""
    advisory: Sequence[str] = ()
    """Limits that hold if its program keeps them."""


class GpuView(View):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"blocked": BlockView, "shares": ShareView}
    OPTIONAL: ClassVar[Mapping[str, str]] = {
        "used_mb": "used_mb", "utilisation": "used_mb", "processes": "used_mb", "misplaced": "misplaced",
        "error": "error", "weave": "weave", "shares": "shares",
    }  # fmt: skip

    node: str = ""
    gpu: int = 0
    model: str = ""
    memory_mb: int = 0
    reserved_mb: int = 0
    jobs: Sequence[str] = ()
    blocked: Sequence[BlockView] = ()
    used_mb: int | None = None
    """None: there is no driver."""
    utilisation: float | None = None
    processes: int | None = None
    misplaced: Sequence[str] | None = None
    error: str | None = None
    """The fault that the driver reports."""
    weave: str | None = None
    """The weave of its jobs; None: they are not woven."""
    shares: Sequence[ShareView] | None = None
    """The runs that share it; None: none does."""


class NodeView(View):
    OPTIONAL: ClassVar[Mapping[str, str]] = {
        "state": "state", "beat_s": "beat_s", "load": "beat_s", "address": "beat_s", "port": "beat_s",
        "version": "beat_s", "lost_in_s": "beat_s", "unhealthy": "unhealthy",
    }  # fmt: skip

    node: str = ""
    alive: bool = False
    gpus: int = 0
    busy: int = 0
    jobs: int = 0
    cpus: int = 0
    cpus_used: int = 0
    ram_mb: int = 0
    ram_used_mb: int = 0
    """Reserved by jobs. `NodeStatus.ram_used_mb` is what the node measured; no answer contains it."""
    labels: Mapping[str, str] = field(default_factory=dict)
    closed: Sequence[str] = ()
    state: str | None = None
    """connected, silent or lost. None: the one machine of a local scheduler."""
    beat_s: float | None = None
    load: float | None = None
    address: str | None = None
    port: int | None = None
    """The first port for gangs; 0: any."""
    version: str | None = None
    lost_in_s: float | None = None
    unhealthy: str | None = None
    """The fault for which the node is cordoned."""


class GpusView(QueryAnswer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"gpus": GpuView}

    gpus: Sequence[GpuView] = ()


class NodesView(QueryAnswer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"nodes": NodeView}

    nodes: Sequence[NodeView] = ()


class MonitorView(QueueView):
    """The queue, the GPUs and the nodes at one moment, for one worker or all."""

    PARTS: ClassVar[Mapping[str, type[View]]] = {"jobs": JobView, "gpus": GpuView, "nodes": NodeView}

    gpus: Sequence[GpuView] = ()
    nodes: Sequence[NodeView] = ()
