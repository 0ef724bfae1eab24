"""Answers about groups of jobs, for `weft group`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from weft.views.answers.base import Answer, View
from weft.views.answers.jobs import QueryAnswer
from weft.views.answers.operations import Operation


class GroupView(View):
    group: str = ""
    label: str = ""
    """Its short name: of a workspace, the name of its folder."""
    jobs: int | None = None
    """The limit on its running jobs; None: no limit."""
    paused: bool = False
    running: int = 0
    waiting: int = 0
    notify: str | None = None
    """Events of the group that lead to a message, such as done,failed@team; None: none."""


class GroupsView(QueryAnswer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"groups": GroupView}

    groups: Sequence[GroupView] = ()


class GroupSettingsView(Answer):
    group: str = ""
    jobs: int | None = None
    paused: bool = False
    notify: str | None = None


SET_GROUP: Final = Operation("group", GroupSettingsView)
PAUSE_GROUP: Final = Operation("pause", GroupSettingsView)
RESUME_GROUP: Final = Operation("resume", GroupSettingsView)
