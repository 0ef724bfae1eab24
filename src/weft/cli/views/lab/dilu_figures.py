"""`weft figures dilu`: all studies on a folder of Dilu's data, as one table."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from weft.cli import render, tables
from weft.cli.tables import Cell, Column

COLUMNS: Final = tuple(Column(name, key=name) for name in ("study", "workload", "rule", "figure", "value", "published"))


def run_dilu(args: argparse.Namespace) -> int:
    """Run the studies, print the table, and write the pictures."""
    from weft.lab.study.dilu import count_studies, run_folder

    rows, pictures, folder = [], [], Path(args.folder)
    with render.ProgressMeter("dilu", count_studies(folder), "studies") as meter:
        for done, figures in enumerate(run_folder(folder), start=1):
            rows += figures.rows
            pictures += figures.pictures
            meter.draw(done)
    summary: dict[str, object] = {
        "schema": 1, "kind": "figures", "paper": "dilu", "failures": [], "rows": [row._asdict() for row in rows],
    }  # fmt: skip
    if args.out is not None:
        from weft.lab.report.folder import write_csv, write_pictures, write_summary
        from weft.sim.folder import atomic_folder

        with atomic_folder(args.out, force=args.force) as out:
            write_pictures(out, pictures)
            write_csv(out / "figures.csv", [column.key for column in COLUMNS], rows)
            write_summary(out, summary)
    if args.json:
        render.print_json(summary)
    else:
        lines = [[Cell("" if cell is None else _text(cell), raw=cell) for cell in row] for row in rows]
        tables.print_table(COLUMNS, lines, args.color, title="Dilu's figures; published: what its own code counts")
    return 0


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,}"
