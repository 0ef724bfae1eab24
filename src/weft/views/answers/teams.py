"""Answers about teams, for `weft team`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from weft.views.answers.base import Answer, View
from weft.views.answers.jobs import QueryAnswer
from weft.views.answers.operations import Operation


class TeamView(View):
    team: str = ""
    guarantee: int = 0
    """As it was set; `guaranteed` is the sum of the teams below it, if that is more."""
    max: int | None = None
    """The most GPUs that it may hold; None: no limit."""
    weight: float = 1.0
    members: Sequence[str] = ()
    guaranteed: int = 0
    held: float = 0.0
    """GPUs of its jobs and of the teams below it. Shared GPUs count in parts."""
    borrowed: float = 0.0
    """Those of `held` that no guarantee covers."""
    running: int = 0
    waiting: int = 0


class TeamsView(QueryAnswer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"teams": TeamView}

    teams: Sequence[TeamView] = ()


class TeamsChangedView(Answer):
    teams: Sequence[str] = ()
    """The teams that were added or changed."""
    removed: Sequence[str] = ()
    guaranteed: int = 0
    """GPUs guaranteed to all teams together."""
    gpus: int = 0
    """GPUs of the living nodes."""


ADD_TEAM: Final = Operation("team-add", TeamsChangedView)
SET_TEAM: Final = Operation("team-set", TeamsChangedView)
REMOVE_TEAM: Final = Operation("team-remove", TeamsChangedView)
APPLY_TEAMS: Final = Operation("team-apply", TeamsChangedView)
