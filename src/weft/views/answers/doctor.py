"""Answers about the scheduler and its problems, for `weft doctor` and `weft up`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from weft.views.answers.base import Answer, View
from weft.views.answers.operations import Operation
from weft.views.answers.steps import StepView


class DeviceView(View):
    """A declared or detected GPU."""

    model: str = ""
    memory_mb: int = 0


class MembersView(View):
    """The number of nodes of a cluster."""

    KEYS: ClassVar[Mapping[str, str]] = {"known": "all"}

    connected: int = 0
    known: int = 0


class JournalView(View):
    OPTIONAL: ClassVar[Mapping[str, str]] = {
        "facts": "facts", "bytes": "bytes", "wal_bytes": "wal_bytes", "check": "check", "backup": "backup"
    }  # fmt: skip

    facts: int | None = None
    bytes: int | None = None
    wal_bytes: int | None = None
    check: str | None = None
    """ok, unfinished, or the problem."""
    backup: str | None = None


class JobCountsView(View):
    running: int = 0
    waiting: int = 0
    ended: int = 0


class SchedulerView(Answer):
    """The report of a scheduler about itself, without names, commands or environments of jobs: it is safe to share."""

    PARTS: ClassVar[Mapping[str, type[View]]] = {
        "nodes": MembersView, "gpus": DeviceView, "journal": JournalView, "jobs": JobCountsView
    }  # fmt: skip
    OPTIONAL: ClassVar[Mapping[str, str]] = {
        "nodes": "nodes", "lease_s": "lease_s", "beat_s": "beat_s", "recovered": "recovered",
        "limits": "limits", "shared": "shared", "shared_problem": "shared_problem", "pools": "pools",
        "database": "database", "node_problems": "node_problems",
    }  # fmt: skip

    pid: int | None = None
    version: str = ""
    python: str = ""
    platform: str = ""
    versions: Mapping[str, str] | None = None
    policy: str = ""
    paused_for: Mapping[str, str] | None = None
    recovered: str | None = None
    """A report of what this scheduler recovered because the journal was lost."""
    node: str = ""
    nodes: MembersView | None = None
    """Only for a cluster."""
    gpus: Sequence[DeviceView] = ()
    gpus_from: str = ""
    driver: str = ""
    cpus: int = 0
    ram_mb: int = 0
    limits: str | None = None
    """The way limits on main memory and CPUs are kept; None: it depends on the node."""
    shared: str | None = None
    """The folder of the shared GPU ledger; None: there is none."""
    shared_problem: str | None = None
    """The reason why that folder cannot be used, and so no GPU."""
    lease_s: float | None = None
    beat_s: float | None = None
    state_dir: str = ""
    runtime_dir: str = ""
    journal: JournalView | None = None
    jobs: JobCountsView | None = None
    enforced: Sequence[str] = ()
    advisory: Sequence[str] = ()
    idle_s: float = 0.0
    min_run_s: float = 0.0
    """Seconds that a run lasts before it can be preempted."""
    image_jobs: int = 0
    """Services and unended jobs with an image."""
    container_problems: Sequence[str] | None = None
    """Jobs that failed in the last day because no container started."""
    pools: Sequence[str] | None = None
    """Problems of pools: paused after failures, or not reachable; None: there are no pools."""
    database: Sequence[str] | None = None
    """Problems of the PostgreSQL that several servers share; None: the journal is elsewhere."""
    node_problems: Sequence[str] | None = None
    """Problems of nodes, and runs that were adopted or killed because the journal lacked them; None: one machine."""


class DoctorView(Answer):
    """The findings of `weft doctor`, with or without a scheduler. Unknown values are omitted."""

    PARTS: ClassVar[Mapping[str, type[View]]] = {**SchedulerView.PARTS, "checks": StepView}
    OPTIONAL: ClassVar[Mapping[str, str]] = {
        name: name
        for name in (
            "versions", "policy", "paused_for", "node", "nodes", "gpus", "gpus_from", "driver", "cpus", "ram_mb",
            "limits", "shared", "shared_problem", "lease_s", "beat_s", "recovered", "journal", "jobs", "enforced",
            "advisory", "idle_s", "min_run_s", "image_jobs", "container_problems", "pools", "database", "node_problems",
        )
    }  # fmt: skip

    version: str = ""
    python: str = ""
    platform: str = ""
    pid: int | None = None
    """None: no scheduler is running."""
    state_dir: str = ""
    runtime_dir: str = ""
    free_mb: int | None = None
    scheduler_at: str = ""
    versions: Mapping[str, str] | None = None
    policy: str | None = None
    paused_for: Mapping[str, str] | None = None
    recovered: str | None = None
    node: str | None = None
    nodes: MembersView | None = None
    gpus: Sequence[DeviceView] | None = None
    gpus_from: str | None = None
    driver: str | None = None
    cpus: int | None = None
    ram_mb: int | None = None
    limits: str | None = None
    shared: str | None = None
    shared_problem: str | None = None
    lease_s: float | None = None
    beat_s: float | None = None
    journal: JournalView | None = None
    jobs: JobCountsView | None = None
    enforced: Sequence[str] | None = None
    advisory: Sequence[str] | None = None
    idle_s: float | None = None
    min_run_s: float | None = None
    image_jobs: int | None = None
    container_problems: Sequence[str] | None = None
    pools: Sequence[str] | None = None
    database: Sequence[str] | None = None
    node_problems: Sequence[str] | None = None
    checks: Sequence[StepView] = ()
    """The checks of `weft node check`, of this machine."""
    problems: Sequence[str] = ()


DOCTOR: Final = Operation("doctor", SchedulerView)
