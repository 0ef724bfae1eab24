"""The folder that a study writes: pictures, a table and a summary."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli import render
from weft.errors import require_package

if TYPE_CHECKING:
    from weft.lab.report.pictures import Picture


def add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="DIR", help="write pictures (PNG, SVG), study.csv and summary.json to DIR")
    parser.add_argument("--force", action="store_true", help="replace DIR, whatever it contains")


def check_out(args: argparse.Namespace) -> None:
    """Raise before anything is computed if the report cannot be drawn or its folder not be written.

    A folder that holds only a report may be replaced.
    """
    from weft.lab.report.folder import is_report
    from weft.sim.folder import check_target

    if args.out is not None:
        require_package("matplotlib")
        args.force = args.force or (bool(args.out) and is_report(Path(args.out)))
        check_target(args.out, force=args.force)


def write_study(
    args: argparse.Namespace,
    pictures: Iterable[Picture],
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    summary: dict[str, object],
) -> None:
    from weft.lab.report.folder import write_csv, write_pictures, write_summary
    from weft.sim.folder import atomic_folder

    with atomic_folder(args.out, force=args.force) as folder:
        write_pictures(folder, pictures)
        write_csv(folder / "study.csv", columns, rows)
        write_summary(folder, summary)
    if render.is_for_person(args.color) and not args.json:
        render.print_message(f"wrote the pictures, study.csv and summary.json to {args.out}")
