"""Show the live queue of the workspace and the scheduler's log, until nothing is left to run.

The scheduler's session runs this command, which also opens and closes the sessions of the tasks there."""

from __future__ import annotations

import argparse
from typing import Final

EXAMPLE: Final = """example:
  weft workspace watch"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sessions", action="store_true", help="also maintain the tasks' sessions, unless another watch does"
    )
    parser.add_argument("--since", metavar="N", type=int, help="start at this position of the journal")


def run(args: argparse.Namespace) -> int:
    from weft.cli.views.workspace_watch import Watch
    from weft.workspace.config import read

    return Watch(read(args.dir, args.config), args).run()
