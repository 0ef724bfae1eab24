"""Check this machine: the driver and its GPUs, disk, limits, shared memory, and the clock against the scheduler's."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags
from weft.cli.views import node_steps
from weft.errors import WeftError

EXAMPLE: Final = """examples:
  weft node check
  weft node check --hosts hosts.txt"""


def configure(parser: argparse.ArgumentParser) -> None:
    node_steps.add_arguments(parser, dry_run=False)
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    if args.hosts:
        return node_steps.run_over_ssh(args, "check", *(["--scheduler", args.scheduler] if args.scheduler else []))
    from weft.node.checks import check

    return node_steps.print_steps(args, check(_offset(args.scheduler)))


def _offset(scheduler: str | None) -> tuple[float, float] | None:
    """Return how far this clock is ahead of the scheduler's, and the uncertainty; None: no scheduler answers."""
    from weft.node.scheduler_side import clock_offset

    try:
        client = connection.connect_if_running(scheduler)
        if client is None:
            return None
        with client:
            return clock_offset(client)
    except WeftError:
        return None
