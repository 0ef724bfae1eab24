"""Weaves as the views that answers consist of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from weft.model.slots import Renumber, format_slots
from weft.scheduling.core.state.job import JobState, weave_id
from weft.scheduling.core.state.state import State
from weft.views.answers.jobs import StageView, WeaveOfJobView
from weft.views.answers.weaves import WeaveMemberView, WeaveView
from weft.views.from_state.measured import WovenRun
from weft.views.from_state.timestamps import iso


class WeaveCounters(Protocol):
    def of(self, job: JobState, /) -> WovenRun | None:
        """Return what is known of the present run of a job in its present weave."""


def members_by_weave(state: State) -> dict[str, list[JobState]]:
    """Return the running members of each weave, in the order of their places.

    A run whose partners have ended keeps its weave until the next plan, but takes turns with none: it is left out.
    """
    found: dict[str, list[JobState]] = {}
    for job in state.active.values():
        if woven := weave_id(job):
            found.setdefault(woven, []).append(job)
    several = {woven: members for woven, members in found.items() if len(members) > 1}
    for members in several.values():
        members.sort(key=lambda job: job.weave.index(job.id))
    return several


def weave_views(state: State, counters: WeaveCounters, order: str, renumber: Renumber) -> list[WeaveView]:
    return [
        WeaveView(
            weave=woven, gpus=format_slots(renumber(members[0].slots)), order=order, since=iso(members[0].woven_at),
            members=[_member(job, counters.of(job)) for job in members],
        )
        for woven, members in members_by_weave(state).items()
    ]  # fmt: skip


def weave_of_job(job: JobState, state: State, counters: WeaveCounters) -> WeaveOfJobView | None:
    """Return the weave of a job's present run; None: it is not woven."""
    woven = weave_id(job) if job.active else ""
    if not woven:
        return None
    known = counters.of(job)
    return WeaveOfJobView(woven, state.partners(job), known.rate if known else None, list(stage_views(known)))


def _member(job: JobState, known: WovenRun | None) -> WeaveMemberView:
    return WeaveMemberView(
        job=job.id, name=job.job.name, user=job.job.user, run=job.run, place=job.weave.index(job.id),
        rate=_rounded(known.rate) if known else None, stages=list(stage_views(known)),
    )  # fmt: skip


def stage_views(known: WovenRun | None) -> Iterable[StageView]:
    for name, use in sorted(known.stages.items()) if known is not None else ():
        yield StageView(
            stage=name, time_s=_rounded(use.mean_s), wait_s=_rounded(use.mean_wait_s), served_s=round(use.served_s, 6),
            waited_s=round(use.waited_s, 6), grants=use.grants, passed_over=use.passed_over,
        )  # fmt: skip


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
