"""Show the settings of all commands. A flag overrides a variable, and a variable overrides the config file.

The file is $XDG_CONFIG_HOME/weft/config.yaml, or the one that WEFT_CONFIG names. Weft never writes to it."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import render, tables
from weft.cli.tables import Cell

EXAMPLE: Final = """In the file:
  scheduler: gpu-head:50051

examples:
  weft config
  weft config show --origin"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", metavar="show", nargs="?", choices=("show",), default="show", help="the settings in effect"
    )
    parser.add_argument("--origin", action="store_true", help="show where each setting comes from")
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from weft.endpoints.config import KEYS, config_file, effective_setting

    found = {key: effective_setting(key) for key in KEYS}
    if args.json:
        settings = {key: {"value": each.value, "origin": each.origin} for key, each in found.items()}
        render.print_json({"schema": 1, "file": str(config_file()), "settings": settings})
        return 0
    pairs = [(key, Cell(f"{each.value} ({each.origin})" if args.origin else each.value)) for key, each in found.items()]
    tables.print_pairs([("file", Cell(str(config_file()))), *pairs] if args.origin else pairs, args.color)
    return 0
