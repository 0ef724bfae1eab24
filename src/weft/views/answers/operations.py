"""Answers of operations on the scheduler, for `weft pause`, `drain`, `operate` and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from weft.views.answers.base import Answer, View, field
from weft.views.answers.jobs import JobDetailView
from weft.views.answers.nodes import GpuView, NodeView

V = TypeVar("V", bound=Answer)


class Operation(NamedTuple, Generic[V]):
    """A verb of the scheduler, and the type of its answer."""

    verb: str
    answer: type[V]


class PausedView(Answer):
    paused: bool = False


class DrainedView(Answer):
    OPTIONAL: ClassVar[Mapping[str, str]] = {"moved": "moved"}
    node: str = ""
    """The first node."""
    gpus: Sequence[int] = ()
    """The GPUs of the first node."""
    places: Sequence[str] = ()
    drained: bool = False
    moved: Sequence[str] | None = None
    """The jobs that leave these GPUs; None: jobs stay."""


class PolicyView(Answer):
    policy: str = ""
    placement: str = ""


class IntervalView(Answer):
    interval_s: float = 0.0


class PassView(Answer):
    started: Sequence[str] = ()


class RefusalView(View):
    id: str = ""
    why: str = ""


class SetView(Answer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"refused": RefusalView}

    changed: Sequence[str] = ()
    refused: Sequence[RefusalView] = ()


class ShutdownView(Answer):
    pid: int | None = None
    running: int = 0


class ClosedView(View):
    """A node that starts no new runs."""

    node: str = ""
    reason: str = ""
    detail: str = ""


class DumpView(Answer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {
        "closed": ClosedView, "nodes": NodeView, "gpus": GpuView, "jobs": JobDetailView
    }  # fmt: skip

    now: str | None = None
    position: int = 0
    policy: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)
    paused_for: Mapping[str, str] = field(default_factory=dict)
    closed: Sequence[ClosedView] = ()
    nodes: Sequence[NodeView] = ()
    gpus: Sequence[GpuView] = ()
    jobs: Sequence[JobDetailView] = ()


PAUSE: Final = Operation("pause", PausedView)
RESUME: Final = Operation("resume", PausedView)
DRAIN: Final = Operation("drain", DrainedView)
UNDRAIN: Final = Operation("undrain", DrainedView)
CORDON: Final = Operation("cordon", DrainedView)
UNCORDON: Final = Operation("uncordon", DrainedView)
POLICY: Final = Operation("policy", PolicyView)
INTERVAL: Final = Operation("interval", IntervalView)
PASS: Final = Operation("pass", PassView)
SET: Final = Operation("set", SetView)
DUMP: Final = Operation("dump", DumpView)
SHUTDOWN: Final = Operation("shutdown", ShutdownView)
