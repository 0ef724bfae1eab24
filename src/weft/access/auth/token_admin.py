"""Administration of tokens, through the server or directly on its machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from weft.access.auth.tls import Material
from weft.access.auth.tokens import Tokens
from weft.errors import NotFound, UnknownName
from weft.inputs.quantities import parse_duration
from weft.views.answers.auth import InvitationView, TokensView, TokenView
from weft.views.answers.base import Answer
from weft.views.from_state.timestamps import iso

DEFAULT_EXPIRY: Final = "1h"


def manage(tokens: Tokens, material: Material | None, by: str, verb: str, options: Mapping[str, str]) -> Answer:
    if verb not in VERBS:
        raise UnknownName("verb", verb, VERBS)
    return VERBS[verb](tokens, material, by, options)


def _token(tokens: Tokens, material: Material | None, by: str, options: Mapping[str, str]) -> InvitationView:
    role, user = options.get("role") or "user", options.get("user") or by
    expires_s = parse_duration(options.get("expires") or DEFAULT_EXPIRY)
    made = tokens.invite(
        role, user, expires_s=expires_s, by=by, fingerprint=material.fingerprint if material is not None else ""
    )
    return InvitationView(token=made, role=role, user=user, expires_s=expires_s)


def _list(tokens: Tokens, _material: Material | None, _by: str, _options: Mapping[str, str]) -> TokensView:
    return TokensView(tokens=[_shown(each) for each in tokens.all()])


def _revoke(tokens: Tokens, _material: Material | None, _by: str, options: Mapping[str, str]) -> TokensView:
    keys, known = options.get("ids", "").split(), {each["id"] for each in tokens.all()}
    for key in keys:
        if key not in known:
            raise NotFound(f"there is no token {key[:40]!r}\n  weft auth list shows their ids; nothing was revoked")
    return TokensView(tokens=[_shown(tokens.revoke(key)) for key in keys])


def _shown(token: Mapping[str, Any]) -> TokenView:
    return TokenView(**{**token, "made_at": iso(token["made_at"]), "expires_at": iso(token["expires_at"])})


Verb = Callable[[Tokens, Material | None, str, Mapping[str, str]], Answer]
VERBS: Final[dict[str, Verb]] = {"token": _token, "list": _list, "revoke": _revoke}
