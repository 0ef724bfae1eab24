"""How things look. stdout is data, stderr is talk.

On a terminal: tables, colour, human units. Piped: plain text and raw numbers, one record per line.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self, TextIO

from weft.cli.text import visible_lines

if TYPE_CHECKING:
    from weft.wire.views.base import View

PATIENCE_S: Final = 1.0
"""What takes no longer needs no progress bar."""
REDRAW_S: Final = 0.1
BAR: Final = 24


def add_arguments(parser: argparse.ArgumentParser, *, json: bool = True) -> None:
    """What every command takes."""
    if json:
        parser.add_argument("--json", action="store_true", help="one JSON object on stdout; errors as JSON on stderr")
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="auto: on a terminal, unless NO_COLOR"
    )


class Cell(NamedTuple):
    """A value as a program reads it and as a person does."""

    raw: object
    shown: str
    best: bool = False


def is_rich(color: str) -> bool:
    """Whether stdout is for a person."""
    return color == "always" or _is_terminal(sys.stdout)


def use_colour(color: str) -> bool:
    if color != "auto":
        return color == "always"
    return _is_terminal(sys.stdout) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_terminal() -> bool:
    """Whether a person looks at stdout."""
    return _is_terminal(sys.stdout)


def is_heard() -> bool:
    """Whether a person reads what is said."""
    return _is_terminal(sys.stderr)


def can_ask() -> bool:
    """Whether a person is there to answer."""
    return _is_terminal(sys.stdin) and _is_terminal(sys.stderr)


def say(text: str) -> None:
    """To the person, not to the pipe; text of others comes out harmless."""
    with suppress(OSError):  # nobody listens
        print(f"weft: {visible_lines(text)}", file=sys.stderr)


def print_json(value: Mapping[str, object] | View) -> None:
    from weft.wire.views.base import members

    print(json.dumps(value, allow_nan=False, default=members))


def print_pairs(title: str, pairs: Sequence[tuple[str, str, Cell]], color: str) -> None:
    """Key, label and value of each: a small table, or `key<TAB>value` lines."""
    if is_rich(color):
        rows = [[Cell(None, label), cell] for _, label, cell in pairs]
        _print_rich(title, ["", ""], rows, color)
        return
    for key, _, cell in pairs:
        print(key, _plain(cell.raw), sep="\t")


def print_table(
    title: str, columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[Cell]], color: str, *, tabs: bool = False
) -> None:
    """Key and label of each column; piped: aligned by spaces, or split by tabs where values may hold blanks."""
    if is_rich(color):
        _print_rich(title, [label for _, label in columns], rows, color)
        return
    lines = [[key for key, _ in columns], *([_plain(cell.raw) for cell in row] for row in rows)]
    if tabs:
        print("\n".join("\t".join(line) for line in lines))
        return
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    for line in lines:
        first, *rest = [
            text.rjust(width) if at else text.ljust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join([first, *rest]).rstrip())


def _plain(value: object) -> str:
    if value is None:
        return "-"
    return repr(value) if isinstance(value, float) else " ".join(str(value).split())


def _print_rich(title: str, labels: Sequence[str], rows: Sequence[Sequence[Cell]], color: str) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colour = use_colour(color)
    table = Table(title=Text(title) if title else None, title_justify="left", title_style="bold", box=None)
    table.show_header, table.pad_edge, table.collapse_padding = any(labels), False, True
    for at, label in enumerate(labels):
        numbers = all(isinstance(row[at].raw, int | float | None) for row in rows) and any(labels)
        table.add_column(Text(label), justify="right" if numbers else "left", no_wrap=numbers, header_style="bold cyan")
    for row in rows:
        table.add_row(*(Text(cell.shown + ("*" if cell.best else ""), style=_style(cell)) for cell in row))
    system: Literal["standard"] | None = "standard" if colour else None
    console = Console(file=sys.stdout, force_terminal=colour, color_system=system, no_color=not colour, highlight=False)
    console.print(table)


def _style(cell: Cell) -> str:
    return "bold green" if cell.best else ""


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


class Meter:
    """A progress bar on stderr, once a second has passed, if that is a terminal. Drawn by hand: it costs nothing."""

    def __init__(self, label: str, total: int) -> None:
        self._label, self._total = label, max(total, 1)
        self._began = time.monotonic()
        self._next = self._began + PATIENCE_S
        self._calls = 0
        self._drawn = False
        self.on = _is_terminal(sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def tick(self, done: int) -> None:
        """Called at every instant: looks at the clock only now and then."""
        self._calls += 1
        if self._calls & 15 == 0 and (now := time.monotonic()) >= self._next:
            self._next = now + REDRAW_S
            self._draw(done, now - self._began)

    def _draw(self, done: int, elapsed_s: float) -> None:
        part = min(done / self._total, 1.0)
        bar = ("#" * round(part * BAR)).ljust(BAR, ".")
        text = f"{self._label} [{bar}] {part:4.0%}  {done:,} of {self._total:,} jobs  {elapsed_s:.0f} s"
        columns = _columns()
        sys.stderr.write(f"\r{text[: columns - 1]}\x1b[K")
        sys.stderr.flush()
        self._drawn = True


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
