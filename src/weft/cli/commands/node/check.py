"""Check this machine: the driver and its GPUs, disk, limits, shared memory, and the clock against the scheduler's."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags
from weft.cli.views import node_steps
from weft.errors import WeftError

if TYPE_CHECKING:
    from collections.abc import Callable

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


def _offset(scheduler: str | None) -> Callable[[], tuple[float, float]] | None:
    """Return a function that compares the clocks; None: no scheduler answers."""
    from weft.node.scheduler_side import clock_offset

    try:
        client = connection.connect_if_running(scheduler)
        if client is None:
            return None
        with client:
            found = clock_offset(client)
    except WeftError:
        return None
    return lambda: found
