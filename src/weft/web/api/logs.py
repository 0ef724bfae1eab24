"""Parts of logs, and the search in them. A log may be huge: each answer is limited. Runs in threads."""

from __future__ import annotations

import codecs
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any, Final

from weft.access.client import Client
from weft.access.wire import messages as m
from weft.views.answers.base import View

PART_BYTES: Final = 256 << 10
MAX_SEARCH_BYTES: Final = 64 << 20
MAX_SEARCH_S: Final = 10.0
MAX_MATCHES: Final = 200
MAX_LINE_CHARS: Final = 500
MAX_NOTES: Final = 5
KEEP_LENGTH: Final = "weft-keep-length"
"""Decodes each byte that is not UTF-8 as one "?": the page counts positions in the log by the bytes of the text."""


def _keep_length(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "?" * (error.end - error.start), error.end


codecs.register_error(KEEP_LENGTH, _keep_length)


class LogPartView(View):
    offset: int = 0
    """The position of the first byte of `text` in the log."""
    next: int = 0
    """The position after the last byte."""
    text: str = ""
    more: bool = False
    """True: there is more to read now."""
    notes: Sequence[str] = ()


class LogMatchesView(View):
    matches: Sequence[dict[str, Any]] = ()
    """For each line: `offset`, `line` (counted from 1) and `text`."""
    searched: int = 0
    """Bytes that were searched."""
    more: bool = False
    """True: the rest was not searched."""


def read_part(client: Client, request: m.LogsRequest, until: int) -> LogPartView:
    """Return the next part of a log, up to the end of a line, or up to the position `until`."""
    text, start, more = bytearray(), request.offset, False
    notes: list[str] = []
    with closing(_chunks(client, request)) as chunks:
        for chunk in chunks:
            if chunk.note and len(notes) < MAX_NOTES:
                notes.append(chunk.note[:MAX_LINE_CHARS])
            if not chunk.text:
                continue
            if not text:
                start = chunk.offset
            text += chunk.text
            if len(text) >= min(PART_BYTES, until - start):
                more = True
                break
    kept = bytes(text[: max(min(PART_BYTES, until - start), 0)])
    cut = kept.rfind(b"\n") + 1
    if more and cut and start + len(kept) < until:
        kept = kept[:cut]
    return LogPartView(start, start + len(kept), kept.decode("utf-8", KEEP_LENGTH), more, notes)


def search(client: Client, request: m.LogsRequest, wanted: str) -> LogMatchesView:
    """Return the lines that contain a text, in large or small letters."""
    needle, until = wanted.lower(), time.monotonic() + MAX_SEARCH_S
    found: list[dict[str, Any]] = []
    searched, line, rest, rest_at = 0, 0, b"", 0
    with closing(_chunks(client, request)) as chunks:
        for chunk in chunks:
            if not chunk.text:
                continue
            if not rest:
                rest_at = chunk.offset
            block, at = rest + chunk.text, rest_at
            *lines, rest = block.split(b"\n")
            for each in lines:
                line += 1
                if needle in each.decode("utf-8", "replace").lower():
                    found.append(_match(each, at, line))
                at += len(each) + 1
            rest_at, searched = at, searched + len(chunk.text)
            if len(rest) > PART_BYTES:  # a line without an end
                rest, rest_at = b"", rest_at + len(rest)
            if len(found) >= MAX_MATCHES or searched >= MAX_SEARCH_BYTES or time.monotonic() > until:
                return LogMatchesView(found[:MAX_MATCHES], searched, True)
    if needle in rest.decode("utf-8", "replace").lower() and rest:
        found.append(_match(rest, rest_at, line + 1))
    return LogMatchesView(found[:MAX_MATCHES], searched, False)


def _match(line: bytes, at: int, number: int) -> dict[str, Any]:
    return {
        "offset": at,
        "line": number,
        "text": line[: 4 * MAX_LINE_CHARS].decode("utf-8", "replace")[:MAX_LINE_CHARS],
    }


def _chunks(client: Client, request: m.LogsRequest) -> Generator[m.LogChunk, None, None]:
    """Yield the parts. A generator of this module: closing it ends the call."""
    yield from client.log_parts(request)
