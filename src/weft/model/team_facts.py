"""Events about teams."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.ids import Seconds
from weft.model.team import Team


@dataclass(frozen=True, slots=True)
class TeamSet:
    """A user added a team, or changed one."""

    at: Seconds
    team: Team


@dataclass(frozen=True, slots=True)
class TeamRemoved:
    """A user removed a team. Its jobs count for its department, or for no team."""

    at: Seconds
    team: str


TeamEvent = TeamSet | TeamRemoved
