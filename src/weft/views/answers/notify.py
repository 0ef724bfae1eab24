"""Answers about targets of messages, for `weft notify`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from weft.views.answers.base import Answer, View
from weft.views.answers.operations import Operation


class TargetView(View):
    name: str = ""
    kind: str = ""
    """webhook, email, command or desktop."""
    place: str = ""
    """Where messages go, without secrets. Admins alone see it."""
    default: bool = False
    pending: int = 0
    sent: int = 0
    """Messages delivered since the start of the scheduler."""
    dropped: int = 0
    error: str | None = None
    """Why the last attempt failed. None: it did not."""


class TargetsView(Answer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"targets": TargetView}

    file: str = ""
    webhooks: Sequence[str] = ()
    """Beginnings of addresses that jobs may name."""
    targets: Sequence[TargetView] = ()


class NotifyTestView(Answer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"targets": TargetView}

    targets: Sequence[TargetView] = ()


LIST_TARGETS: Final = Operation("notify-list", TargetsView)
TEST_TARGET: Final = Operation("notify-test", NotifyTestView)
