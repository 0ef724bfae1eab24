"""Answers of operations on the scheduler, for `weft pause`, `drain`, `operate` and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from weft.wire.views.base import Answer, View
from weft.wire.views.jobs import JobDetailView
from weft.wire.views.nodes import GpuView, NodeView

V = TypeVar("V", bound=Answer)


class Operation(NamedTuple, Generic[V]):
    """A verb of the scheduler, and the type of its answer."""

    verb: str
    answer: type[V]


@dataclass(frozen=True)
class PausedView(Answer):
    paused: bool = False


@dataclass(frozen=True)
class DrainedView(Answer):
    node: str = ""
    """The first node."""
    gpus: Sequence[int] = ()
    """The GPUs of the first node."""
    places: Sequence[str] = ()
    drained: bool = False


@dataclass(frozen=True)
class PolicyView(Answer):
    policy: str = ""
    placement: str = ""


@dataclass(frozen=True)
class IntervalView(Answer):
    interval_s: float = 0.0


@dataclass(frozen=True)
class PassView(Answer):
    started: Sequence[str] = ()


@dataclass(frozen=True)
class RefusalView(View):
    id: str = ""
    why: str = ""


@dataclass(frozen=True)
class SetView(Answer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"refused": RefusalView}

    changed: Sequence[str] = ()
    refused: Sequence[RefusalView] = ()


@dataclass(frozen=True)
class ShutdownView(Answer):
    pid: int | None = None
    running: int = 0


@dataclass(frozen=True)
class ClosedView(View):
    """A node that starts no new runs."""

    node: str = ""
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True)
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
