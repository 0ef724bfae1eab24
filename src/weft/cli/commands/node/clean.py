"""Kill processes that ended jobs left behind, and remove stale sockets and empty weave directories.

A process is killed only if its environment has the token of a run that has ended, by the run's record on this machine.
Processes of running jobs and of others are never touched."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.views import node_steps

EXAMPLE: Final = """examples:
  weft node clean --dry-run
  weft node clean"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder", metavar="DIR", action="append", default=[], help="also for a worker with this --folder"
    )
    node_steps.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.hosts:
        return node_steps.run_over_ssh(args, "clean", *(word for each in args.folder for word in ("--folder", each)))
    from weft.node.care.cleanup import clean

    return node_steps.print_steps(args, clean(dry_run=args.dry_run, folders=args.folder))
