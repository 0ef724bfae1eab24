"""List autoscalers with their options, including those of installed packages."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import render, tables
from weft.cli.views.plugin_table import COLUMNS, describe_all, plugin_row

EXAMPLE: Final = """Set an option after the name: weft study scaling --rps rps.txt --scalers deficit:target=0.7:keep=30

example:
  weft scalers --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    scalers = describe_all("weft.scalers")
    if args.json:
        render.print_json({"schema": 1, "scalers": scalers})
        return 0
    tables.print_table(COLUMNS, [plugin_row("scaler", each) for each in scalers], args.color, tabs=True)
    return 0
