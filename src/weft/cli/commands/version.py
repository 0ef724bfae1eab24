"""Print the version of Weft."""

from __future__ import annotations

import argparse
import platform
from typing import Final

from weft.cli import render
from weft.version import __version__

EXAMPLE: Final = """example:
  weft version --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.json:
        render.print_json({"schema": 1, "version": __version__, "python": platform.python_version()})
    else:
        print(f"weft {__version__}")
    return 0
