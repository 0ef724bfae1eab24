"""The end of a log as lines: bytes come in as a job wrote them, printable text goes out. Memory is limited."""

from __future__ import annotations

import codecs
from collections import deque
from typing import Final

from weft.tui.model.spans import ESCAPE_CODES, Line, clean, wrap

MAX_LINES: Final = 5_000
MAX_LINE_CHARS: Final = 4_000
"""A longer line is cut: it would fill the screen."""


class LogText:
    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._open = ""
        """The last line, which has no end yet."""
        self.version = 0

    def feed(self, data: bytes) -> None:
        text = self._open + self._decoder.decode(data)
        *whole, self._open = text.split("\n")
        self._lines.extend(map(_shown, whole))
        if len(self._open) > 16 * MAX_LINE_CHARS:  # a line without an end: a progress bar, or no text at all
            self._open = self._open[-MAX_LINE_CHARS:]
        self.version += 1

    def lines(self, width: int) -> list[Line]:
        """Return the lines, broken where they are wider than the pane."""
        rest = _shown(self._open)
        found: list[Line] = []
        for line in (*self._lines, *([rest] if rest else [])):
            found += [[(part, "")] for part in (wrap(line, width) if len(line) > width else [line])]
        return found


def _shown(line: str) -> str:
    """Return what a terminal would show of a line: the text after the last return to its start, without codes."""
    line = ESCAPE_CODES.sub("", line.removesuffix("\r"))
    return clean(line[line.rfind("\r") + 1 :][:MAX_LINE_CHARS].expandtabs(8))
