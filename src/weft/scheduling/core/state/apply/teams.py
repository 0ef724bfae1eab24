"""Facts about teams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.model import TeamRemoved, TeamSet

if TYPE_CHECKING:
    from weft.scheduling.core.state.state import State


def team_set(state: State, fact: TeamSet) -> bool:
    state.news = True
    return state.teams.put(fact.team)


def team_removed(state: State, fact: TeamRemoved) -> bool:
    state.news = True
    return state.teams.remove(fact.team)
