"""Answers about weaves, for `weft weaves` and `weft show`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from weft.views.answers.base import View
from weft.views.answers.jobs import QueryAnswer, StageView


class WeaveMemberView(View):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"stages": StageView}

    job: str = ""
    name: str = ""
    user: str = ""
    run: int = 0
    place: int = 0
    """Its place in the weave, from 0."""
    rate: float | None = None
    """Its pace against its solo pace; None: not measured yet."""
    stages: Sequence[StageView] = ()
    """Its turns in each stage since the weave was formed; empty: not reported yet."""


class WeaveView(View):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"members": WeaveMemberView}

    weave: str = ""
    gpus: str = ""
    """The GPUs of its members, such as n1[0,1]."""
    order: str = ""
    since: str | None = None
    members: Sequence[WeaveMemberView] = ()


class WeavesView(QueryAnswer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"weaves": WeaveView}

    weaves: Sequence[WeaveView] = ()
    total_rate: float | None = None
    """The sum of the measured rates. None: none is measured yet."""
