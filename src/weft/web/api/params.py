"""Query strings, read strictly: an unknown or malformed parameter is an error that names it."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request

from weft.errors import InputError, UnknownName

MAX_TEXT_CHARS = 200
MAX_PARAMETERS = 20


class Params:
    """The parameters of one request. Call `done` after the last one was read."""

    def __init__(self, request: Request) -> None:
        pairs = request.query_params.multi_items()
        if len(pairs) > MAX_PARAMETERS:
            raise InputError("too many parameters", hint=f"at most {MAX_PARAMETERS}")
        self._given = dict(pairs)
        if len(self._given) < len(pairs):
            raise InputError("a parameter is given twice", hint="give each once")
        self._known: list[str] = []

    def text(self, name: str, default: str = "") -> str:
        self._known.append(name)
        found = self._given.get(name, default)
        if len(found) > MAX_TEXT_CHARS:
            raise InputError("the text is too long", key=name, hint=f"at most {MAX_TEXT_CHARS} characters")
        if "\0" in found or any("\ud800" <= char <= "\udfff" for char in found):
            raise InputError("the text has characters that no name has", key=name, hint="use UTF-8")
        return found

    def whole(self, name: str, default: int, low: int, high: int) -> int:
        found = self.text(name)
        if not found:
            return default
        if not (found.isascii() and found.isdecimal() and len(found) < 19 and low <= int(found) <= high):
            raise InputError(f"{found[:40]!r} is not a whole number from {low} to {high}", key=name)
        return int(found)

    def choice(self, name: str, known: Iterable[str], default: str) -> str:
        found, choices = self.text(name) or default, list(known)
        if found not in choices:
            raise UnknownName(name, found[:40], choices)
        return found

    def choices(self, name: str, known: Iterable[str]) -> tuple[str, ...]:
        """Return the parts of a list with commas."""
        names, choices = tuple(part for part in self.text(name).split(",") if part), list(known)
        for each in names:
            if each not in choices:
                raise UnknownName(name, each[:40], choices)
        return names

    def done(self) -> None:
        for name in self._given:
            if name not in self._known:
                raise UnknownName("parameter", name[:40], self._known or ["none"])
