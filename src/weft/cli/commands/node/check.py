"""Check this machine: the driver and its GPUs, disk, limits, shared memory, and the clock against the scheduler's.

With --nodes, check nodes of a cluster and the network between them: a short job without GPUs runs on each of them, and
every node sends a little to every other, through ports that gangs use. The result names host names that do not resolve,
closed ports, slow links and wrong clocks."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags
from weft.cli.views import node_steps
from weft.errors import InputError, WeftError

EXAMPLE: Final = """examples:
  weft node check
  weft node check --nodes all
  weft node check --nodes n1,n2 --scheduler gpu-head:50051
  weft node check --hosts hosts.txt"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--nodes", metavar="N1,N2", default="", help="nodes of the cluster, or all (default: this machine)"
    )
    parser.add_argument(
        "--timeout", metavar="S", type=flags.seconds, default=60.0, help="with --nodes: how long to try each link (60)"
    )
    node_steps.add_arguments(parser, dry_run=False)
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    if args.hosts and args.nodes:
        raise InputError("--hosts and --nodes are both given", hint="give one or the other")
    if args.hosts:
        return node_steps.run_over_ssh(args, "check", *(["--scheduler", args.scheduler] if args.scheduler else []))
    if args.nodes:
        return _check_cluster(args)
    from weft.node.care.checks import check

    return node_steps.print_steps(args, check(_offset(args.scheduler)))


def _check_cluster(args: argparse.Namespace) -> int:
    from weft.node.care.mesh.cluster import check_cluster

    with connection.connect_to_running(args.scheduler) as client:
        found = check_cluster(client, args.nodes, args.timeout)
    return node_steps.print_cluster(args, found)


def _offset(scheduler: str | None) -> tuple[float, float] | None:
    """Return how far this clock is ahead of the scheduler's, and the uncertainty; None: no scheduler answers."""
    from weft.access.client import Client
    from weft.access.endpoints import config
    from weft.access.endpoints.paths import user_paths
    from weft.node.care.scheduler_side import clock_offset

    where, here = config.scheduler_address(scheduler), user_paths()
    if where is None and not here.answers():
        return None  # a check starts no scheduler
    try:
        with Client(where or here, start=False) as client:
            return clock_offset(client)
    except WeftError:
        return None
