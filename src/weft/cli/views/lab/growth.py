"""The trials of a search for the share and batch of a service, and what was chosen."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from weft.cli import render, tables
from weft.cli.tables import Cell, Column

if TYPE_CHECKING:
    from weft.lab.study.growth_search import Pick

COLUMNS: Final = tuple(Column(label, right=True, key=key) for label, key in (
    ("trial", "trial"), ("batch", "batch"), ("share", "share"), ("latency", "seconds"), ("requests/s", "throughput"),
))  # fmt: skip


def print_pick(args: argparse.Namespace, pick: Pick, points: int, source: Mapping[str, str]) -> None:
    """Print the trials and what was chosen; `source` says what was measured."""
    best = pick.best
    if args.json:
        trials = [{"batch": each.batch, "share": each.share, "seconds": each.seconds} for each in pick.trials]
        render.print_json({
            "schema": 1, "kind": "profile", **source, "slo_s": args.slo, "share": best.share,
            "share_percent": round(100 * best.share, 6), "batch": best.batch, "seconds": best.seconds,
            "throughput": best.throughput, "trials": len(pick.trials), "points": points, "measured": trials,
        })  # fmt: skip
        return
    rows = [
        [Cell(str(at), raw=at), Cell(str(each.batch), raw=each.batch),
         Cell(f"{100 * each.share:g} %", raw=each.share), Cell(f"{1000 * each.seconds:.4g} ms", raw=each.seconds),
         Cell(f"{each.throughput:.4g}", raw=each.throughput)]
        for at, each in enumerate(pick.trials, start=1)
    ]  # fmt: skip
    tables.print_table(COLUMNS, rows, args.color)
    share = f"{100 * best.share:g} %"
    render.print_message(
        f"share {share}, batch {best.batch}: {best.throughput:.4g} requests/s; {len(rows)} of {points} points"
    )
