"""Why a team does not let a job start, with the numbers."""

from __future__ import annotations

from typing import Final

from weft.model.status import Reason
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.teams.context import TeamContext
from weft.scheduling.core.teams.standing import ROUNDING, gpus_of

SHOWN: Final = 10
"""The most runs or teams that a reason names."""


def explain_refusal(context: TeamContext, job: JobState) -> tuple[str, str] | None:
    """Return the code and the text of the reason; None: the job's team lets it start."""
    refused = context.refusal(job)
    if refused is None:
        return None
    if refused == "max":
        return Reason.QUOTA, _full(context, job)
    if refused == "reclaimed":
        return Reason.RECLAIMED, _reclaimed(context, job)
    team = context.standing.team(job)
    others = f"its part of the GPUs that teams borrow now is {_gpus(context.allowance(team))}"
    return Reason.QUOTA, f"{describe_standing(context, team)}; {others}, by weight"


def explain_guarantee(context: TeamContext, job: JobState) -> str:
    """Return which guarantee covers a job that does not fit now, and who lends or gives back GPUs; empty: none does."""
    standing, teams, state = context.standing, context.state.teams, context.state
    if not gpus_of(job) or not context.is_guaranteed(job):
        return ""
    owner = next(name for name in reversed(standing.path(job)) if standing.fits_guarantee(name, gpus_of(job)))
    held = _gpus(standing.held.get(owner, 0.0))
    mine = f"team {owner} is guaranteed {_gpus(teams.guarantees[owner])} and holds {held}"
    back = [run for run in state.active.values() if run.releasing and run.reclaimed_at is not None]
    if back:
        named = ", ".join(f"{run.id} of {_team(standing.team(run))}" for run in back[:SHOWN])
        return f"; {mine}; {'these give' if len(back) > 1 else 'this gives'} GPUs back: {named}"
    lent = {name: gpus for name, gpus in standing.borrowed.items() if gpus > ROUNDING and name != standing.team(job)}
    if not lent:
        return f"; {mine}; no other team borrows any"
    lenders = ", ".join(f"{_team(name)} borrows {_gpus(gpus)}" for name, gpus in list(lent.items())[:SHOWN])
    return f"; {mine}; {lenders}, but no runs that may stop now would make room"


def describe_standing(context: TeamContext, team: str) -> str:
    """Return what a team holds, is guaranteed and borrows."""
    standing, teams = context.standing, context.state.teams
    borrowed = _gpus(standing.borrowed.get(team, 0.0))
    if not team:
        return f"jobs without a team borrow {borrowed}"
    held, sure = standing.held.get(team, 0.0), teams.guarantees[team]
    return f"team {team} holds {_gpus(held)}, is guaranteed {sure:,} and borrows {borrowed}"


def _full(context: TeamContext, job: JobState) -> str:
    name = context.standing.full_team(job) or ""
    held, most = context.standing.held.get(name, 0.0), context.state.teams.by_name[name].max_gpus
    return f"needs {_gpus(gpus_of(job))}; team {name} holds {_gpus(held)} and may hold {most:,} at most"


def _reclaimed(context: TeamContext, job: JobState) -> str:
    now, at = context.state.now, job.reclaimed_at or 0.0
    again_s = max(context.borrows_from(job) - now, 0.0)
    taken = f"a team took back {_gpus(gpus_of(job))}, guaranteed to it, {max(now - at, 0.0):.0f} s ago"
    again = f"the job may borrow again in {again_s:.0f} s"
    return f"{taken}; {describe_standing(context, context.standing.team(job))}; {again}"


def _team(name: str) -> str:
    return f"team {name}" if name else "no team"


def _gpus(count: float) -> str:
    return f"{count:,.3g} GPU{'' if count == 1 else 's'}" if count < 1000 else f"{count:,.0f} GPUs"
