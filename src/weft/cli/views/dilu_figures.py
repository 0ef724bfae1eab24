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
    from weft.study.dilu import run_folder

    rows, pictures = [], []
    for name, figures in run_folder(Path(args.folder)):
        rows += figures.rows
        pictures += figures.pictures
        if render.is_stderr_terminal():
            render.print_message(f"{name}: done")
    summary: dict[str, object] = {
        "schema": 1, "kind": "figures", "paper": "dilu", "failures": [], "rows": [row._asdict() for row in rows],
    }  # fmt: skip
    if args.out is not None:
        from weft.report.folder import write_csv, write_pictures, write_summary
        from weft.sim.folder import atomic_folder

        with atomic_folder(args.out, force=args.force) as folder:
            write_pictures(folder, pictures)
            write_csv(folder / "figures.csv", [column.key for column in COLUMNS], rows)
            write_summary(folder, summary)
    if args.json:
        render.print_json(summary)
    else:
        lines = [[Cell("" if cell is None else _text(cell), raw=cell) for cell in row] for row in rows]
        tables.print_table(COLUMNS, lines, args.color, title="Dilu's figures; published: what its own code counts")
    return 0


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,}"
