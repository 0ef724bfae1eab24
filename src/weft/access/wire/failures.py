"""Errors on the wire, as JSON with kind, message, hint and place: the client raises the same error as the server."""

from __future__ import annotations

import json
from typing import Any, Final

from weft.errors import InputError, JournalError, NotFound, NotLeading, NotPermitted, Refused, WeftError

MAX_CHARS: Final = 1000
"""The most characters of each part: gRPC sends at most 16 kB of them as JSON, in which one may take twelve."""
KINDS: Final[dict[str, type[WeftError]]] = {
    kind.__name__: kind for kind in (NotFound, NotLeading, NotPermitted, Refused, JournalError)
}


def encode_error(error: WeftError) -> str:
    return json.dumps(_parts_of(error))


def _parts_of(error: WeftError) -> dict[str, Any]:
    kind = next((cls.__name__ for cls in type(error).__mro__ if cls.__name__ in KINDS), type(error).__name__)
    if not isinstance(error, InputError):
        return {"kind": kind, "what": str(error)[:MAX_CHARS], "hint": ""}
    what, hint, where, key = (text[:MAX_CHARS] for text in (error.what, error.hint, error.where, error.key))
    parts = {"kind": kind, "what": what, "hint": hint, "where": where, "key": key}
    return parts if error.index is None else {**parts, "index": error.index}


def decode_error(text: str) -> WeftError | None:
    """Return the error; None if the text describes none."""
    try:
        body = json.loads(text)
        kind, what, hint = body["kind"], body["what"], body["hint"]
        place = {name: body[name] for name in ("where", "key", "index") if name in body}
    except (ValueError, KeyError, TypeError):
        return None
    return KINDS[kind](what) if kind in KINDS else InputError(what, hint=hint, **place)
