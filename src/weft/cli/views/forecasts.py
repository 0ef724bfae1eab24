"""The tables of `weft whatif`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.cli import tables
from weft.cli.tables import Cell, Column
from weft.text import format_duration, plural

if TYPE_CHECKING:
    from weft.views.answers.forecasts import JobEffectView, WaitsView, WhatIfView


def print_what_if(found: WhatIfView, color: str) -> None:
    """Print the waits with and without the change, by user, and the jobs that gain and lose most."""
    assert found.before is not None
    assert found.after is not None
    columns = [Column("WAIT"), *(Column(each, right=True) for each in ("NOW", "WHAT IF", "CHANGE"))]
    rows = [
        _row("average", found.before.average_s, found.after.average_s),
        _row("P90", found.before.p90_s, found.after.p90_s),
        [Cell("without estimate"), *_counts(found.before, found.after)],
    ]
    title = f"{plural(found.waiting, 'waiting job')}, {found.samples} samples, policy {found.policy}"
    tables.print_table(columns, rows, color, title=title)
    if found.users:
        print()
        columns = [Column("USER"), Column("JOBS", right=True), *columns[1:]]
        users = [
            [Cell(each.user or "-"), Cell(str(each.jobs), raw=each.jobs), *_change(each.before_s, each.after_s)]
            for each in found.users
        ]
        tables.print_table(columns, users, color, title="average wait by user")
    for title, effects in (("jobs that gain most", found.gain), ("jobs that lose most", found.lose)):
        if effects:
            print()
            tables.print_table(*_effects(effects), color, title=title)


def _row(name: str, before_s: float | None, after_s: float | None) -> list[Cell]:
    return [Cell(name), *_change(before_s, after_s)]


def _counts(before: WaitsView, after: WaitsView) -> list[Cell]:
    counts = (before.unknown, after.unknown, after.unknown - before.unknown)
    return [Cell(f"{count:,}", raw=count) for count in counts[:2]] + [Cell(f"{counts[2]:+,}", raw=counts[2])]


def _effects(effects: Sequence[JobEffectView]) -> tuple[list[Column], list[list[Cell]]]:
    columns = [
        Column("JOBID", right=True), Column("NAME", max_width=30), Column("USER", max_width=12), Column("OF"),
        *(Column(each, right=True) for each in ("NOW", "WHAT IF", "CHANGE")),
    ]  # fmt: skip
    rows = [
        [
            *(Cell(text) for text in (each.job, each.name or "-", each.user or "-", each.what)),
            *_change(each.before_s, each.after_s),
        ]
        for each in effects
    ]
    return columns, rows


def _change(before_s: float | None, after_s: float | None) -> list[Cell]:
    cells = [_seconds(before_s), _seconds(after_s)]
    if before_s is None or after_s is None:
        return [*cells, Cell("-")]
    difference_s = after_s - before_s
    sign = "-" if difference_s < 0 else "+"
    return [*cells, Cell(f"{sign}{format_duration(abs(difference_s))}", raw=difference_s)]


def _seconds(seconds: float | None) -> Cell:
    return Cell("unknown") if seconds is None else Cell(format_duration(seconds), raw=seconds)
