"""Columns of tables, and how they share the width of a screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from weft.tui.model.spans import Span, fit, width_of

GAP = 1


class Column(NamedTuple):
    key: str
    title: str
    width: int
    """The least width."""
    grows: int = 0
    """The part of the spare width that it gets."""
    rank: int = 0
    """On a narrow screen, columns of the highest rank go first."""
    right: bool = False
    max_width: int = 200


Cells = Mapping[str, "Span | Sequence[Span]"]
"""The cells of a row by the keys of their columns: one span, or several that fill the width themselves."""


def layout(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """Return the columns that fit, each with its width."""
    shown = list(columns)
    while len(shown) > 1 and sum(each.width + GAP for each in shown) - GAP > width:
        shown.remove(max(reversed(shown), key=lambda each: each.rank))
    widths = {each.key: min(each.width, width) for each in shown}
    spare = width - sum(widths.values()) - GAP * (len(shown) - 1)
    growing = [each for each in shown if each.grows]
    while spare > 0 and growing:
        total = sum(each.grows for each in growing)
        for each in list(growing):
            more = min(max(spare * each.grows // total, 1), each.max_width - widths[each.key], spare)
            widths[each.key] += max(more, 0)
            spare -= max(more, 0)
            if widths[each.key] >= each.max_width:
                growing.remove(each)
    return [(each, widths[each.key]) for each in shown]


def head(shown: Sequence[tuple[Column, int]], sort: str = "", *, reverse: bool = False) -> list[Span]:
    """Return the line of titles; the column of the order is marked."""
    line: list[Span] = []
    for at, (column, width) in enumerate(shown):
        arrow = ("▲" if reverse else "▼") if column.key == sort else ""
        title = f"{column.title}{arrow}" if len(column.title) + len(arrow) <= width else column.title
        gap = " " * (GAP if at else 0)
        line.append((gap + fit(title, width, right=column.right), "sorted" if column.key == sort else "head"))
    return line


def row(shown: Sequence[tuple[Column, int]], cells: Cells) -> list[Span]:
    line: list[Span] = []
    for at, (column, width) in enumerate(shown):
        if at:
            line.append((" " * GAP, ""))
        cell = cells.get(column.key, ("", ""))
        if cell and isinstance(cell[0], str):
            text, style = cell
            line.append((fit(str(text), width, right=column.right), str(style)))
            continue
        spans = [span for span in cell if isinstance(span, tuple)]
        used = width_of(spans)
        line += spans if used <= width else [(fit("".join(text for text, _ in spans), width), spans[0][1])]
        line.append((" " * max(width - used, 0), ""))
    return line


def column_at(shown: Sequence[tuple[Column, int]], x: int) -> str:
    """Return the key of the column at this place of a line; empty: none."""
    at = 0
    for column, width in shown:
        at += width + GAP
        if x < at:
            return column.key
    return ""
