"""Tables and label-value pairs, formatted without a library: importing one takes longer than most commands.

The output on a terminal and in a pipe differs only in colour and width, except for columns with keys, such as figures:
a pipe gets their raw values, one record per line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from weft.cli import render
from weft.text import display_width, escape_controls, truncate

COLOURS: Final = {
    "green": "32",
    "yellow": "33",
    "red": "31",
    "blue": "34",
    "grey": "90",
    "magenta": "35",
    "bold": "1",
    "best": "1;32",
}
BEST: Final = "best"
"""The colour of the best value of its column, which also gets a star."""
MIN_WRAP_WIDTH: Final = 10
GAP: Final = "  "
_CODE: Final = r"(\x1b\[[0-9;]*m)"


class Column(NamedTuple):
    label: str
    right: bool = False
    max_width: int = 0
    """The width on a terminal that has no room for more; 0: as wide as its values."""
    key: str = ""
    """The name of the column in a pipe, which gets raw values if columns have keys."""


class Cell(NamedTuple):
    text: str
    colour: str = ""
    raw: object = ""
    """The value for a pipe, if columns or pairs have keys."""

    @property
    def best(self) -> bool:
        return self.colour == BEST


def print_table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    color: str,
    *,
    title: str = "",
    header: bool = True,
    tabs: bool = False,
) -> None:
    """Print a table. With keys, a pipe gets raw values, aligned with spaces, or separated by tabs if `tabs`."""
    keyed = any(column.key for column in columns)
    if keyed and not render.is_for_person(color):
        _print_raw(columns, rows, tabs=tabs)
        return
    colour, narrow = render.use_colour(color), render.is_terminal()
    if title:
        print(_apply_colour(title, "bold", colour))
    if keyed:
        columns = [column._replace(right=column.right or _is_number(rows, at)) for at, column in enumerate(columns)]
        rows = _wrap(rows, _columns() if narrow else 0)
    for line in format_lines(columns, rows, colour=colour, narrow=narrow, header=header):
        print(line)


def _print_raw(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, tabs: bool) -> None:
    texts = [[column.key for column in columns], *([_plain(cell.raw) for cell in row] for row in rows)]
    if tabs:
        print("\n".join("\t".join(line) for line in texts))
        return
    widths = [max(len(line[at]) for line in texts) for at in range(len(columns))]
    for line in texts:
        first, *rest = [
            text.rjust(wide) if at else text.ljust(wide)
            for at, (text, wide) in enumerate(zip(line, widths, strict=True))
        ]
        print(GAP.join([first, *rest]).rstrip())


def _plain(value: object) -> str:
    if value is None:
        return "-"
    return repr(value) if isinstance(value, float) else " ".join(str(value).split())


def _is_number(rows: Sequence[Sequence[Cell]], at: int) -> bool:
    return all(isinstance(row[at].raw, int | float | None) for row in rows)


def _wrap(rows: Sequence[Sequence[Cell]], room: int) -> list[list[Cell]]:
    """Return rows of one line each: cells of several lines are split, and the widest column is wrapped to fit."""
    split = [[cell.text.split("\n") for cell in row] for row in rows]
    widths = [
        max((display_width(line) for row in split for line in row[at]), default=0)
        for at in range(len(rows[0]) if rows else 0)
    ]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - room if room and widths else 0
    widest = widths.index(max(widths)) if widths else 0
    found: list[list[Cell]] = []
    for row, parts in zip(rows, split, strict=True):
        if excess > 0:
            from textwrap import wrap  # few tables need it

            fit = max(widths[widest] - excess, MIN_WRAP_WIDTH)
            parts[widest] = [piece for line in parts[widest] for piece in wrap(line, fit) or [""]]
        found += [
            [cell._replace(text=part[at] if at < len(part) else "") for cell, part in zip(row, parts, strict=True)]
            for at in range(max(map(len, parts)))
        ]
    return found


def format_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, colour: bool, narrow: bool, header: bool = True
) -> Iterator[str]:
    """Yield the lines of a table. With `narrow`, truncate long values where the terminal has no room for them."""
    table = [[_text(cell) for cell in row] for row in rows]
    heads = [column.label for column in columns]
    header = header and any(heads)
    widths = [
        max([display_width(head) * header, *(display_width(row[at]) for row in table)]) for at, head in enumerate(heads)
    ]
    if narrow and any(column.max_width for column in columns):
        _narrow(columns, widths, table)
    if header:
        yield _line(heads, columns, widths, ["bold"] * len(heads), colour)
    for texts, row in zip(table, rows, strict=True):
        yield _line(texts, columns, widths, [cell.colour for cell in row], colour)


def _text(cell: Cell) -> str:
    return escape_controls(cell.text) + ("*" if cell.best and cell.text else "")


def _narrow(columns: Sequence[Column], widths: list[int], table: Sequence[list[str]]) -> None:
    """Truncate the columns with a limit, the widest first, until the table fits the terminal."""
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - _columns()
    limited = [at for at, column in enumerate(columns) if column.max_width and widths[at] > column.max_width]
    for at in sorted(limited, key=lambda at: -widths[at]):
        if excess <= 0:
            return
        width = max(widths[at] - excess, columns[at].max_width)
        excess, widths[at] = excess - (widths[at] - width), width
        for texts in table:
            texts[at] = truncate(texts[at], width)


def _line(
    texts: Sequence[str], columns: Sequence[Column], widths: Sequence[int], colours: Sequence[str], colour: bool
) -> str:
    parts = []
    for at, text in enumerate(texts):
        blank = " " * (widths[at] - display_width(text))
        shown = _apply_colour(text, colours[at], colour)
        parts.append(blank + shown if columns[at].right else shown + blank * (at < len(texts) - 1))
    return GAP.join(parts).rstrip()


def _apply_colour(text: str, name: str, colour: bool) -> str:
    code = COLOURS.get(name) if colour else None
    return f"\x1b[{code}m{text}\x1b[0m" if code and text else text


def print_pairs(pairs: Sequence[tuple[str, Cell]], color: str, *, title: str = "", keys: Sequence[str] = ()) -> None:
    """Print labels and values, one line each, without empty values. With keys, a pipe gets raw values."""
    if keys and not render.is_for_person(color):
        for key, (_, cell) in zip(keys, pairs, strict=True):
            print(key, _plain(cell.raw), sep="\t")
        return
    shown = [(label, cell.text) for label, cell in pairs if cell.text != ""]
    wide = max((display_width(label) for label, _ in shown), default=0)
    bold = render.use_colour(color)
    if title:
        print(_apply_colour(title, "bold", bold))
    for label, value in shown:
        lines = value.replace("\n", f"\n{' ' * wide}{GAP}")
        print(f"{_apply_colour(label, 'bold', bold)}{' ' * (wide - display_width(label))}{GAP}{lines}")


def redraw(texts: Sequence[str]) -> None:
    """Replace the screen with as many lines as fit; in a pipe, print all of them."""
    if not render.can_move_cursor():
        print("\n".join(texts), end="\n\n")
        return
    columns, height = terminal_size()
    shown = [text if len(text) < columns else _crop(text, columns) for text in texts[: max(height - 1, 1)]]
    sys.stdout.write("\x1b[H" + "".join(f"{text}\x1b[K\n" for text in shown) + "\x1b[J")


def _columns() -> int:
    return terminal_size()[0]


def terminal_size() -> tuple[int, int]:
    """Return the columns and lines of the terminal."""
    try:
        columns, height = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        return 80, 24
    return columns or 80, height or 24


def _crop(text: str, columns: int) -> str:
    """Truncate a line at the edge of the terminal. Colour codes take no columns."""
    parts = re.split(_CODE, text)
    room, kept = columns, ""
    for at, part in enumerate(parts):
        if at % 2:
            kept += part
            continue
        piece = part if display_width(part) <= room else truncate(part, room) if room > 0 else ""
        kept, room = kept + piece, room - display_width(piece)
    return kept
