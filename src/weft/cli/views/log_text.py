"""Filters for the output of jobs on its way to a terminal or a pipe."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import Final

from weft.text import escape_character

_ESCAPE_CODES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[PX^_][^\x1b]*\x1b\\|\x1b[ -/]+[0-~]"
    r"|\x1b[0-OQ-WYZ\\`a-~]"
)
"""Escape codes: colours, cursor movement, titles and others."""
_PARTIAL_CODE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]{0,4096}\x1b?|[ -/]*)?\Z")
"""The beginning of an escape code at the end of a piece."""
_ALLOWED: Final = frozenset("\n\t\r")
MAX_LINE_BYTES: Final = 1 << 20
"""A longer line is passed on in parts."""


def collapse_redraws(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Keep only the last state of each line that was redrawn, such as a progress bar."""
    rest = b""
    for piece in pieces:
        text = rest + piece
        end = text.rfind(b"\n") + 1
        rest = text[end:]
        if end and b"\r" not in text:
            yield text[:end]  # splitting large logs into lines takes most of the time
        elif end:
            yield b"".join(_last_state(line) + b"\n" for line in text[: end - 1].split(b"\n"))
        rest = _last_state(rest, open_end=True)
        if len(rest) > MAX_LINE_BYTES:
            yield rest
            rest = b""
    if rest:
        yield _last_state(rest)


def _last_state(line: bytes, *, open_end: bool = False) -> bytes:
    ending = len(line) - len(line.rstrip(b"\r"))
    body = line[: len(line) - ending]
    kept = body[body.rfind(b"\r") + 1 :]
    return kept + (b"\r" if ending and (open_end or body) else b"")


def strip_escape_codes(pieces: Iterable[bytes]) -> Iterator[str]:
    """Remove escape codes, and print other control characters in escaped form."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")
    rest = ""
    for piece in pieces:
        text = rest + decoder.decode(piece)
        begun = _PARTIAL_CODE.search(text)
        rest = text[begun.start() :] if begun and begun[0] else ""
        yield _printable(text[: len(text) - len(rest)])
    yield _printable(rest + decoder.decode(b"", final=True))


def _printable(text: str) -> str:
    plain = _ESCAPE_CODES.sub("", text)
    return "".join(c if c.isprintable() or c in _ALLOWED else escape_character(c) for c in plain)
