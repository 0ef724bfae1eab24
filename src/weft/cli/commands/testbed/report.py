"""Compare the finished cells of a testbed with the simulator and with published figures; draw them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.cli import render, tables
from weft.cli.tables import Cell, Column
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.lab.report.page import Table
    from weft.lab.testbed.store import Store

EXAMPLE: Final = """examples:
  weft testbed report DIR
  weft testbed report DIR --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="the folder of weft testbed run")


def run(args: argparse.Namespace) -> int:
    from weft.lab.testbed.store import Store

    store = Store(Path(args.folder))
    store.check()
    return print_report(args, store)


def print_report(args: argparse.Namespace, store: Store) -> int:
    """Write the report into the folder and print its tables."""
    from weft.lab.testbed.report import tables_of, write_report
    from weft.lab.testbed.summary import as_json, by_setup, read_rows

    rows = read_rows(store)
    if not rows:
        raise InputError("no finished cell", where=str(store.root), hint="weft testbed run --out DIR runs them")
    files = write_report(store, rows)
    if args.json:
        render.print_json(as_json(rows))
        return 0
    for setup, of_setup in by_setup(rows).items():
        _print(tables_of(setup, of_setup), args.color)
    render.print_message(f"wrote {', '.join(path.name for path in files[:3])} and {len(files) - 3} pictures")
    return 0


def _print(found: Sequence[Table], color: str) -> None:
    for table in found:
        columns = [Column(label, right=bool(number)) for number, label in enumerate(table.columns)]
        rows = [[Cell(cell.text) for cell in row] for row in table.rows]
        tables.print_table(columns, rows, color, title=table.caption)
        print(f"  {table.note}\n")
