"""Shows the queue of the workspace and the scheduler's log as they change, until nothing is left to run.

This is what runs in the scheduler's session, where it opens and closes the sessions of the tasks as well."""

from __future__ import annotations

import argparse
from typing import Final

EXAMPLE: Final = """example:
  weft workspace watch"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sessions", action="store_true", help="keep the tasks' sessions too, unless somebody does")
    parser.add_argument("--since", metavar="N", type=int, help="from this position of the journal on")


def run(args: argparse.Namespace) -> int:
    from weft.cli.views.workspace_watch import Watch
    from weft.workspace.config import read

    return Watch(read(args.dir, args.config), args).run()
