"""Forecasts as typed answers."""

from __future__ import annotations

from math import inf
from typing import Any

from weft.scheduling.core.deadlines import ExpectedEnd, deadline_note
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.server.forecasts.keeper import ForecastTable
from weft.views.answers.forecasts import ForecastView, JobEffectView, UserEffectView, WaitsView, WhatIfView
from weft.views.from_state.timestamps import iso


def forecast_view(job: JobState, state: State, table: ForecastTable | None, failure: str = "") -> ForecastView:
    """Return the forecast of a job that has not ended, or why there is none."""
    found = table.jobs.get(job.id) if table is not None else None
    if found is None or table is None:
        return ForecastView(note=_why_none(job, failure))
    start_p50, start_p90, end_p50, end_p90, basis, similar = found
    if job.active:  # it may have started since
        start_p50 = start_p90 = None
    view = ForecastView(
        iso(table.at), table.samples, iso(start_p50), iso(start_p90), iso(end_p50), iso(end_p90), basis, similar
    )
    if start_p50 is None and not job.active:
        if job.waiting_since > table.at:  # the forecast knows its last run
            return ForecastView(note=_why_none(job, failure))
        return ForecastView(**{**vars(view), "note": _why_never(job, state, table)})
    if end_p50 is None:
        return ForecastView(
            **{**vars(view), "note": "no end: neither the job nor a finished one tells how long it takes"}
        )
    if job.job.deadline_at is not None:
        end = ExpectedEnd(end_p50, inf if end_p90 is None else end_p90)
        note = deadline_note(job.job.deadline_at, end, table.at)
        return ForecastView(**{**vars(view), "note": note or ""})
    return view


def _why_none(job: JobState, failure: str) -> str:
    if job.job.replica is not None:
        return "a replica of a service does not end"
    return failure or "the forecast is not ready yet; ask again"


def _why_never(job: JobState, state: State, table: ForecastTable) -> str:
    """Return why a job does not start in half of the samples."""
    if job.held:
        return "no start: the job is held"
    if state.paused:
        return "no start: the scheduler is paused"
    if table.unknown:
        return f"no start: the durations of {table.unknown} jobs are unknown; --time or --duration declares them"
    return "no start: the present nodes do not let it run"


def what_if_view(found: dict[str, Any], policy: str) -> WhatIfView:
    return WhatIfView(
        now=iso(found["at"]), policy=policy, samples=found["samples"], waiting=found["waiting"],
        before=WaitsView(*found["before"]), after=WaitsView(*found["after"]),
        users=[UserEffectView(*each) for each in found["users"]],
        gain=[JobEffectView(*each) for each in found["gain"]], lose=[JobEffectView(*each) for each in found["lose"]],
    )  # fmt: skip
