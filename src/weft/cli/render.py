"""Output rules: data goes to stdout, messages go to stderr.

A terminal gets tables, colour and human units. A pipe gets plain text and raw numbers, one record per line.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Self, TextIO

from weft.errors import InputError
from weft.text import escape_lines

if TYPE_CHECKING:
    from weft.views.answers.base import View

PROGRESS_DELAY_S: Final = 1.0
"""Work that takes no longer gets no progress bar."""
REDRAW_S: Final = 0.1
BAR_WIDTH: Final = 24


def add_arguments(parser: argparse.ArgumentParser, *, json: bool = True) -> None:
    """Add the flags of every command."""
    if json:
        parser.add_argument(
            "--json", action="store_true", help="print one JSON object on stdout, and errors as JSON on stderr"
        )
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto: on a terminal, unless NO_COLOR is set",
    )


def is_for_person(color: str) -> bool:
    """Return whether to print for a person: tables and human units instead of raw values."""
    return color == "always" or _is_terminal(sys.stdout)


def use_colour(color: str) -> bool:
    if color != "auto":
        return color == "always"
    return _is_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_terminal() -> bool:
    """Return whether stdout is a terminal."""
    return _is_terminal(sys.stdout)


def can_move_cursor() -> bool:
    """Return whether stdout is a terminal that can redraw a screen."""
    return is_terminal() and os.environ.get("TERM") != "dumb"


def require_screen(command: str) -> None:
    """Raise if there is no terminal to draw a screen on and to read keys from."""
    if not (can_move_cursor() and _is_terminal(sys.stdin)):
        raise InputError(f"{command} needs a terminal", hint="weft monitor and weft queue print to a pipe")


def is_stderr_terminal() -> bool:
    """Return whether stderr is a terminal, where a person reads messages."""
    return _is_terminal(sys.stderr)


def can_prompt() -> bool:
    """Return whether a person can answer a question."""
    return _is_terminal(sys.stdin) and _is_terminal(sys.stderr)


def print_message(text: str) -> None:
    """Print a message on stderr, with control characters escaped."""
    with suppress(OSError):  # stderr is closed
        print(f"weft: {escape_lines(text)}", file=sys.stderr)


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show what the command waits for on stderr, if that is a terminal, as long as it waits."""
    shown = _is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
    if shown:
        print(f"weft: {text} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def print_json(value: Mapping[str, object] | View) -> None:
    from weft.views.answers.base import members

    print(json.dumps(value, allow_nan=False, default=members))


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


class ProgressMeter:
    """A progress bar on stderr, if that is a terminal. It appears after a second. It needs no library to import."""

    def __init__(self, label: str, total: int, unit: str = "jobs") -> None:
        self._label, self._total, self._unit = label, max(total, 1), unit
        self._began = time.monotonic()
        self._next = self._began + PROGRESS_DELAY_S
        self._calls = 0
        self._drawn = False
        self.on = _is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def tick(self, done: int) -> None:
        """Report progress. This is cheap: most calls do not read the clock."""
        self._calls += 1
        if self._calls & 15 == 0 and (now := time.monotonic()) >= self._next:
            self._next = now + REDRAW_S
            self._draw(done, now - self._began)

    def draw(self, done: int) -> None:
        """Report progress that changes slowly: each call draws, after the first second."""
        if (now := time.monotonic()) >= self._next:
            self._draw(done, now - self._began)

    def _draw(self, done: int, elapsed_s: float) -> None:
        part = min(done / self._total, 1.0)
        bar = ("#" * round(part * BAR_WIDTH)).ljust(BAR_WIDTH, ".")
        text = f"{self._label} [{bar}] {part:4.0%}  {done:,} of {self._total:,} {self._unit}  {elapsed_s:.0f} s"
        columns = _columns()
        sys.stderr.write(f"\r{text[: columns - 1]}\x1b[K")
        sys.stderr.flush()
        self._drawn = True


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
