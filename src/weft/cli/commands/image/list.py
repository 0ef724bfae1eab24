"""List the images that `weft image build` has built on this machine, newest first."""

from __future__ import annotations

import argparse
import os
from typing import Final

from weft.cli import render, tables
from weft.cli.tables import Cell, Column

EXAMPLE: Final = """example:
  weft image list --json"""

COLUMNS: Final = (Column("IMAGE", max_width=80), Column("ID"), Column("SIZE", right=True), Column("CREATED"))


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runtime", metavar="NAME", default="", help="podman or docker (the first that works)")


def run(args: argparse.Namespace) -> int:
    from weft.access.jobspec.readers import runtime
    from weft.node.engine.container.detection import host_environment
    from weft.node.engine.container.images import Builder

    images = Builder(runtime(args.runtime or "auto"), host_environment(os.environ)).images()
    if args.json:
        render.print_json({"images": [image._asdict() for image in images]})
    else:
        rows = [[Cell(each.name), Cell(each.id), Cell(each.size), Cell(each.created[:19])] for each in images]
        tables.print_table(COLUMNS, rows, args.color)
    return 0
