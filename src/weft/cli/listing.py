"""Tables drawn by hand: the same on a terminal and in a pipe, but for colour and width, and quick to print."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from weft.cli import render
from weft.cli.text import cut, visible, width

COLOURS: Final = {"green": "32", "yellow": "33", "red": "31", "blue": "34", "grey": "90", "magenta": "35", "bold": "1"}
GAP: Final = "  "
_CODE: Final = re.compile(r"(\x1b\[[0-9;]*m)")


class Column(NamedTuple):
    label: str
    right: bool = False
    most: int = 0
    """On a terminal no wider than this; 0: as wide as it is."""


class Cell(NamedTuple):
    text: str
    colour: str = ""


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], color: str, *, header: bool = True) -> None:
    for line in lines(columns, rows, colour=render.use_colour(color), narrow=render.is_terminal(), header=header):
        print(line)


def lines(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, colour: bool, narrow: bool, header: bool = True
) -> Iterator[str]:
    """With `narrow`, long values are cut."""
    table = [[_fitting(cell.text, column, narrow) for cell, column in zip(row, columns, strict=True)] for row in rows]
    heads = [column.label for column in columns]
    widths = [max([width(head) * header, *(width(row[at]) for row in table)]) for at, head in enumerate(heads)]
    if header:
        yield _line(heads, columns, widths, ["bold"] * len(heads), colour)
    for texts, row in zip(table, rows, strict=True):
        yield _line(texts, columns, widths, [cell.colour for cell in row], colour)


def _fitting(text: str, column: Column, narrow: bool) -> str:
    text = visible(text)
    return cut(text, column.most) if narrow and column.most else text


def _line(
    texts: Sequence[str], columns: Sequence[Column], widths: Sequence[int], colours: Sequence[str], colour: bool
) -> str:
    parts = []
    for at, text in enumerate(texts):
        blank = " " * (widths[at] - width(text))
        code = COLOURS.get(colours[at]) if colour else None
        shown = f"\x1b[{code}m{text}\x1b[0m" if code and text else text
        parts.append(blank + shown if columns[at].right else shown + blank * (at < len(texts) - 1))
    return GAP.join(parts).rstrip()


def print_pairs(pairs: Sequence[tuple[str, str]], color: str) -> None:
    """Labels and values, one line each; an empty value leaves the line out."""
    shown = [(label, value) for label, value in pairs if value != ""]
    wide = max((width(label) for label, _ in shown), default=0)
    bold = render.use_colour(color)
    for label, value in shown:
        blank = " " * (wide - width(label))
        print(f"\x1b[1m{label}\x1b[0m{blank}{GAP}{value}" if bold else f"{label}{blank}{GAP}{value}")


def redraw(texts: Sequence[str]) -> None:
    """In place of what was drawn before, as much as fits; piped, one after the other."""
    if not render.is_terminal():
        print("\n".join(texts), end="\n\n")
        return
    try:
        columns, height = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        columns, height = 80, 24
    shown = [text if len(text) < columns else _cropped(text, columns) for text in texts[: max(height - 1, 1)]]
    sys.stdout.write("\x1b[H" + "".join(f"{text}\x1b[K\n" for text in shown) + "\x1b[J")


def _cropped(text: str, columns: int) -> str:
    """Cut at the edge; colours take no room."""
    parts = _CODE.split(text)
    room, kept = columns, ""
    for at, part in enumerate(parts):
        if at % 2:
            kept += part
            continue
        piece = part if width(part) <= room else cut(part, room) if room > 0 else ""
        kept, room = kept + piece, room - width(piece)
    return kept
