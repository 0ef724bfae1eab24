"""Print scheduler.sh (wrapper) or scheduler_config.yml (config), to copy by hand."""

from __future__ import annotations

import argparse
from typing import Final

EXAMPLE: Final = """example:
  weft workspace template config > scheduler_config.yml"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("wrapper", "config"))


def run(args: argparse.Namespace) -> int:
    from weft.workspace import templates

    print(templates.wrapper() if args.what == "wrapper" else templates.config("my_task"), end="")
    return 0
