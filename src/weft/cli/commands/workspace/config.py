"""Print every key of the workspace, its value in effect, and where the value comes from."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import render, tables
from weft.cli.tables import Cell, Column

if TYPE_CHECKING:
    from weft.workspace.config import Config

EXAMPLE: Final = """example:
  weft workspace --dir experiments config --json"""

COLUMNS: Final = (Column("KEY"), Column("VALUE"), Column("FROM"))


def configure(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(args: argparse.Namespace) -> int:
    from weft.workspace.config import read

    config = read(args.dir, args.config)
    values = effective(config)
    if args.json:
        found = {key: {"value": value, "from": config.origins[key]} for key, value in values.items()}
        render.print_json({"schema": 1, "dir": str(config.home), "config": str(config.file), "keys": found})
        return 0
    rows = [[Cell(key), Cell(_shown(value)), Cell(config.origins[key])] for key, value in values.items()]
    tables.print_table(COLUMNS, rows, args.color)
    return 0


def effective(config: Config) -> dict[str, object]:
    """Return the values in effect, with absolute paths and without empty values."""
    import os

    from weft.workspace.keys import KEYS
    from weft.workspace.launch import find_conda, interpreter

    values: dict[str, object] = dict(config.values)
    for key in KEYS:
        if key.kind == "path":
            values[key.name] = str(config.path(key.name))
    values["python_env"] = interpreter(config, conda=find_conda(config, os.environ)[0])
    values["worker_prefix"] = config.prefix
    return values


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value) or "''"
