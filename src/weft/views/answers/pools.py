"""Answers about pools, for `weft pool`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from weft.views.answers.base import Answer, View, field
from weft.views.answers.jobs import QueryAnswer
from weft.views.answers.operations import Operation


class AllocationView(View):
    key: str = ""
    node: str = ""
    id: str = ""
    """The provider's id; empty until the provider has answered."""
    phase: str = ""
    """requested, pending, running (no worker has joined yet), joined or released."""
    reason: str = ""
    """Why it waits, in the provider's words; of a released one: why it is given back."""
    requested: str | None = None
    ends: str | None = None
    jobs: int = 0
    """Runs on its node."""
    idle_s: float | None = None
    """Seconds since the last run on its node; None: there is one."""


class PoolView(View):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"allocations": AllocationView}

    name: str = ""
    provider: str = ""
    state: str = ""
    """open, paused, removing or unreachable."""
    why: str = ""
    """The code of a pause."""
    detail: str = ""
    nodes: int = 0
    """Nodes that have joined."""
    waiting: int = 0
    """Allocations that wait at the provider."""
    wanted: int = 0
    """Further nodes that waiting jobs need."""
    max_nodes: int = 0
    min_nodes: int = 0
    gpus: int = 0
    model: str = ""
    memory_mb: int = 0
    cpus: int = 0
    ram_mb: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    time_s: float = 0.0
    idle_s: float = 0.0
    backlog: int = 0
    leave_grace_s: float = 0.0
    options: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    failures: int = 0
    """Allocations in a row that failed."""
    failure: str = ""
    """The last failure, with the last lines of its log."""
    allocations: Sequence[AllocationView] = ()


class PoolsView(QueryAnswer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"pools": PoolView}

    pools: Sequence[PoolView] = ()


class PoolAnswer(Answer):
    pool: str = ""
    key: str = ""
    """The allocation that `weft pool try` asked for."""


class PoolScriptView(Answer):
    pool: str = ""
    script: str = ""


ADD_POOL: Final = Operation("pool-add", PoolAnswer)
SET_POOL: Final = Operation("pool-set", PoolAnswer)
PAUSE_POOL: Final = Operation("pool-pause", PoolAnswer)
RESUME_POOL: Final = Operation("pool-resume", PoolAnswer)
REMOVE_POOL: Final = Operation("pool-remove", PoolAnswer)
TRY_POOL: Final = Operation("pool-try", PoolAnswer)
POOL_SCRIPT: Final = Operation("pool-script", PoolScriptView)
