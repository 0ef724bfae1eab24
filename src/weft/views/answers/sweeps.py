"""Answers about sweeps and their trials, for `weft sweep`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from weft.views.answers.base import View, field
from weft.views.answers.jobs import QueryAnswer


class TrialView(View):
    id: str = ""
    name: str = ""
    state: str = ""
    """The status in Slurm's letters; ST for a trial that its rule has stopped."""
    status: str = ""
    """As of any job; `stopped`: its rule holds it, and weft release lets it continue."""
    time_s: float = 0.0
    params: Mapping[str, str] = field(default_factory=dict)
    step: int | None = None
    total: int | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """The last value of each metric; None: it was not a finite number."""
    rungs: Sequence[float | None] = ()
    """The metric of its rule at each rung that it has reached."""
    exit_code: int | None = None


class SweepView(View):
    sweep: str = ""
    user: str = ""
    group: str = ""
    count: int = 0
    statuses: Mapping[str, int] = field(default_factory=dict)
    """The number of trials of each status."""
    early_stop: str = ""
    """The rule of early stopping, such as `asha loss min 10 3`; empty: none."""
    submitted: str | None = None


class SweepsView(QueryAnswer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"sweeps": SweepView, "jobs": TrialView}

    sweeps: Sequence[SweepView] = ()
    """The last that was submitted comes last."""
    jobs: Sequence[TrialView] = ()
    """If one sweep is asked for, its trials in the order of their submission."""
