"""Operations on teams: add, change and remove them, one by one or all at once; and what each team has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from weft.access.teams.description import changed_team, check_guarantees, check_team_name
from weft.errors import InputError, Refused, UnknownName
from weft.model import Seconds, Team, TeamRemoved, TeamSet
from weft.model.team import TeamEvent
from weft.scheduling.core.state.state import State
from weft.scheduling.core.state.teams import Teams
from weft.scheduling.core.teams.standing import Standing, standing_of
from weft.server.jobs.groups import unfinished
from weft.views.answers.teams import TeamsChangedView, TeamView


def events_of(state: State, verb: str, options: Mapping[str, str], now: Seconds) -> list[TeamEvent]:
    """Return the events of a request, or raise: no team may be guaranteed more than it may hold."""
    events = _events(state, verb, options, now)
    teams = dict(state.teams.by_name)
    for event in events:
        if isinstance(event, TeamSet):
            teams[event.team.name] = event.team
        else:
            teams.pop(event.team, None)
    check_guarantees(teams.values())
    return events


def _events(state: State, verb: str, options: Mapping[str, str], now: Seconds) -> list[TeamEvent]:
    if verb == "team-apply":
        return _apply(state, options, now)
    values = {key: text for key, text in options.items() if key != "team"}
    name, teams = options.get("team", ""), state.teams
    if verb == "team-add":
        if name in teams.by_name:
            raise InputError(f"team {name} exists already", hint=f"weft team set {name} ... changes it")
        return [TeamSet(now, changed_team(Team(check_team_name(name)), values))]
    if name not in teams.by_name:
        raise UnknownName("team", name[:80], teams.by_name)
    if verb == "team-set":
        return [TeamSet(now, changed_team(teams.by_name[name], values))]
    if below := teams.below(name):
        raise Refused(f"team {name} has teams below it: {', '.join(below)}\n  remove them first")
    return [TeamRemoved(now, name)]


def _apply(state: State, options: Mapping[str, str], now: Seconds) -> list[TeamEvent]:
    """Return the events after which exactly these teams exist: an option for each, with its values as JSON."""
    known, made = state.teams.by_name, {}
    for name, text in options.items():
        try:
            values = json.loads(text)
        except ValueError:
            values = None
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise InputError(f"team {name[:80]}: {text[:80]!r} is no object of texts", hint="use weft team apply FILE")
        made[name] = changed_team(Team(check_team_name(name)), values)
    if not made:
        raise InputError("no team is named", hint="weft team remove NAME removes a team")
    gone = sorted((name for name in known if name not in made), reverse=True)  # inner teams first
    return [
        *(TeamRemoved(now, name) for name in gone),
        *(TeamSet(now, team) for name, team in made.items() if known.get(name) != team),
    ]


def changes_view(state: State, events: Sequence[TeamEvent]) -> TeamsChangedView:
    """Return what events have changed."""
    teams = state.teams
    return TeamsChangedView(
        teams=[event.team.name for event in events if isinstance(event, TeamSet)],
        removed=[event.team for event in events if isinstance(event, TeamRemoved)],
        guaranteed=sum(gpus for name, gpus in teams.guarantees.items() if len(teams.path(name)) == 1),
        gpus=state.gpus,
    )


def borrowed_gpus(teams: Teams, standing: Standing) -> dict[str, float]:
    """Return the GPUs that each team borrows, those of the teams below it included."""
    borrowed: dict[str, float] = {}
    for team, gpus in standing.borrowed.items():
        for name in teams.path(team):
            borrowed[name] = borrowed.get(name, 0.0) + gpus
    return borrowed


def team_views(state: State) -> list[TeamView]:
    """Return all teams by name, each after its department."""
    teams, standing = state.teams, standing_of(state)
    running, waiting, borrowed = dict[str, int](), dict[str, int](), borrowed_gpus(teams, standing)
    for job in unfinished(state):
        counts = running if job.active else waiting
        for name in teams.path(job.job.team):
            counts[name] = counts.get(name, 0) + 1
    return [
        TeamView(
            team=name, guarantee=team.guarantee, max=team.max_gpus, weight=team.weight, members=list(team.members),
            guaranteed=teams.guarantees[name], held=round(standing.held.get(name, 0.0), 3),
            borrowed=round(borrowed.get(name, 0.0), 3), running=running.get(name, 0), waiting=waiting.get(name, 0),
        )
        for name, team in sorted(teams.by_name.items())
    ]  # fmt: skip
