"""Says which Weft this is."""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import version
from typing import Final

from weft.cli import render

EXAMPLE: Final = """example:
  weft version --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.json:
        render.print_json({"schema": 1, "version": version("weft"), "python": platform.python_version()})
    else:
        print(f"weft {version('weft')}")
    return 0
