"""Answers about tokens, for `weft auth`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from weft.views.answers.base import Answer, View
from weft.views.answers.operations import Operation


class InvitationView(Answer):
    """A join token."""

    token: str = ""
    role: str = ""
    user: str = ""
    expires_s: float = 0.0


class TokenView(View):
    """A token without its secret."""

    id: str = ""
    kind: str = ""
    role: str = ""
    user: str = ""
    node: str = ""
    made_at: str | None = None
    made_by: str = ""
    expires_at: str | None = None
    state: str = ""


class TokensView(Answer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"tokens": TokenView}

    tokens: Sequence[TokenView] = ()


INVITE: Final = Operation("token", InvitationView)
LIST: Final = Operation("list", TokensView)
REVOKE: Final = Operation("revoke", TokensView)
