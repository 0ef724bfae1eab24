"""Finds the `model` of an OpenAI request in the first bytes of its body, JSON or a form, without parsing the rest."""

from __future__ import annotations

import json
import re
from typing import Final

MAX_MODEL_BYTES: Final = 512
_OUTSIDE: Final = re.compile(rb'["{}\[\]:,]')
_INSIDE: Final = re.compile(rb'["\\]')
MAX_PARTS: Final = 100
MAX_PART_BYTES: Final = 2048
"""The headers of one part, and a model's name."""
_FORM: Final = re.compile(rb'content-type: *multipart/form-data *;[^\r]*?boundary="?([^"\s;]{1,70})', re.IGNORECASE)
_MODEL_FIELD: Final = re.compile(
    rb'\r\ncontent-disposition: *form-data *;[^\r]*?\bname="?model"?(?=[;\r]|$)', re.IGNORECASE
)
_BLANK: Final = b" \t\r\n"


class BadBody(ValueError):
    """The body is not a JSON object with a model. The text says why."""


class ModelScanner:
    """Reads a body piece by piece until it has seen the top-level key `model`; the first such key counts.

    It checks the nesting of the JSON, not all of its grammar: the replica parses the body again.
    """

    __slots__ = ("_depth", "_expects_key", "_in_string", "_key", "_skip", "_text", "model")

    def __init__(self) -> None:
        self.model: str | None = None
        self._depth = 0
        self._in_string = False
        self._skip = 0
        self._text: bytearray | None = None
        """The string being read, where its content matters."""
        self._key: bytes | None = None
        self._expects_key = False

    def feed(self, data: bytes) -> str | None:
        """Read the next piece. Return the model as soon as it is known."""
        at = 0
        while self.model is None and at < len(data):
            at = self._read_string(data, at) if self._in_string else self._read_outside(data, at)
        return self.model

    def _read_string(self, data: bytes, at: int) -> int:
        if self._skip:  # the character after a backslash
            self._keep(data[at : at + 1])
            self._skip = 0
            return at + 1
        found = _INSIDE.search(data, at)
        end = found.start() if found else len(data)
        self._keep(data[at:end])
        if found is None:
            return end
        if found[0] == b"\\":
            self._keep(b"\\")
            self._skip = 1
        else:
            self._in_string = False
            self._end_string()
        return end + 1

    def _keep(self, piece: bytes) -> None:
        if self._text is not None:
            self._text += piece
            if len(self._text) > MAX_MODEL_BYTES:
                if self._key == b"model":
                    raise BadBody(f"the model's name is longer than {MAX_MODEL_BYTES} bytes")
                self._text = None

    def _end_string(self) -> None:
        if self._depth != 1 or self._text is None:
            return
        text, self._text = bytes(self._text), None
        if self._expects_key:
            self._key, self._expects_key = _unquote(text).encode(), False
        elif self._key == b"model":
            self.model = _unquote(text)

    def _read_outside(self, data: bytes, at: int) -> int:
        if self._depth == 0:
            return self._read_start(data, at)
        found = _OUTSIDE.search(data, at)
        end = found.start() if found else len(data)
        if self._key == b"model" and self._depth == 1 and data[at:end].strip(_BLANK):
            raise BadBody("model is not a string")
        if found is None:
            return end
        self._read_mark(found[0])
        return end + 1

    def _read_start(self, data: bytes, at: int) -> int:
        rest = data[at:].lstrip(_BLANK)
        if rest and not rest.startswith(b"{"):
            raise BadBody("the body is not a JSON object")
        if rest:
            self._depth, self._expects_key = 1, True
        return len(data) - len(rest) + 1 if rest else len(data)

    def _read_mark(self, mark: bytes) -> None:
        if mark == b'"':
            self._in_string = True
            wanted = self._depth == 1 and (self._expects_key or self._key == b"model")
            self._text = bytearray() if wanted else None
        elif mark in b"{[":
            if self._depth == 1 and self._key == b"model":
                raise BadBody("model is not a string")
            self._depth += 1
        elif mark in b"}]":
            self._depth -= 1
            if self._depth == 0:
                raise BadBody("the body names no model")
        elif mark == b"," and self._depth == 1:
            self._key, self._expects_key = None, True


class FormScanner:
    """Reads a form piece by piece, such as one that uploads audio, until it has seen the field `model`."""

    __slots__ = ("_boundary", "_parts", "_text")

    def __init__(self, boundary: bytes) -> None:
        self._boundary = b"--" + boundary + b"\r\n"
        self._text = bytearray()
        """The part of the form that has yet to be read."""
        self._parts = 0

    def feed(self, data: bytes) -> str | None:
        """Read the next piece. Return the model as soon as it is known."""
        text = self._text
        text += data
        while (start := text.find(self._boundary)) >= 0:
            del text[:start]
            part = text[:MAX_PART_BYTES]
            head, line_ends, rest = part.partition(b"\r\n\r\n")
            is_model = _MODEL_FIELD.search(head) is not None
            if not line_ends or (is_model and b"\r\n" not in rest):
                if len(part) == MAX_PART_BYTES:
                    raise BadBody("a part of the form has long headers, or its model has a long name")
                return None
            if is_model:
                return rest.partition(b"\r\n")[0].decode("utf-8", "replace")
            if self._parts == MAX_PARTS:
                raise BadBody(f"no model in the first {MAX_PARTS} parts of the form")
            self._parts += 1
            del text[: len(head) + 4]
        del text[: -len(self._boundary)]
        return None


def find_boundary(lines: list[bytes]) -> bytes | None:
    """Return the boundary of a form from the headers of a request; None if the body is no form."""
    for line in lines:
        if (form := _FORM.match(line)) is not None:
            return form[1]
    return None


def _unquote(text: bytes) -> str:
    try:
        found = json.loads(b'"' + text + b'"', strict=False)
    except ValueError:
        raise BadBody("the body is not JSON") from None
    return str(found)
