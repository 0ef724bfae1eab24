"""Changes since the last message, for screens that follow the scheduler: `weft top`.

Every row is whole and replaces the row that the client has, so a change may arrive twice without harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from weft.views.answers.base import Answer, View, field
from weft.views.answers.jobs import JobView
from weft.views.answers.nodes import GpuView, NodeView
from weft.views.answers.services import ServiceView
from weft.views.answers.weaves import WeaveView


class EventView(View):
    """Something that happened, for people."""

    at: float = 0.0
    """Seconds since 1970; in a simulation, since its start."""
    kind: str = ""
    """The name of the fact."""
    job: str = ""
    node: str = ""
    text: str = ""


class CountsView(View):
    """The totals, and the state of the scheduler."""

    running: int = 0
    waiting: int = 0
    ended: int = 0
    policy: str = ""
    paused_for: Mapping[str, str] = field(default_factory=dict)


class ChangesView(Answer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {
        "counts": CountsView, "jobs": JobView, "gpus": GpuView, "nodes": NodeView, "services": ServiceView,
        "weaves": WeaveView, "events": EventView,
    }  # fmt: skip
    OPTIONAL: ClassVar[Mapping[str, str]] = {
        name: name
        for name in (
            "reset", "counts", "jobs", "purged", "order", "gpus", "readings", "nodes", "left", "services", "weaves",
            "events", "missed_events",
        )
    }  # fmt: skip

    now: float = 0.0
    reset: bool | None = None
    """The first message: whatever the client knows is out of date."""
    counts: CountsView | None = None
    jobs: Sequence[JobView] | None = None
    """Jobs that are new or have changed."""
    purged: Sequence[str] | None = None
    order: Sequence[str] | None = None
    """The first waiting jobs in the order of the queue."""
    gpus: Sequence[GpuView] | None = None
    readings: Mapping[str, Sequence[tuple[int, int | None, float | None]]] | None = None
    """By node: GPU, used memory and utilisation, of GPUs whose usage has changed."""
    nodes: Sequence[NodeView] | None = None
    left: Sequence[str] | None = None
    """Nodes that are gone, and their GPUs. A node that is still listed as lost is among the next `nodes` again."""
    services: Sequence[ServiceView] | None = None
    """All services."""
    weaves: Sequence[WeaveView] | None = None
    """All weaves."""
    events: Sequence[EventView] | None = None
    missed_events: int | None = None
    """Events that were left out because there were too many."""
