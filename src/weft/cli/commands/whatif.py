"""Compare the present queue with the queue under a change: waits, users, and the jobs that gain and lose most.

Nothing changes. The scheduler runs forward from its present state, with and without the change, over the same sampled
durations."""

from __future__ import annotations

import argparse
import re
from typing import Final

from weft.cli import connection, flags, render
from weft.errors import InputError

EXAMPLE: Final = """examples:
  weft whatif --policy srsf
  weft whatif --add-node 8
  weft whatif --add-node 2x8 --policy tiresias
  weft whatif --cancel 12 --priority 15=10 --json"""

_NODES: Final = re.compile(r"(?:([0-9]{1,4})x)?([0-9]{1,4})")


def configure(parser: argparse.ArgumentParser) -> None:
    policy_help = "another policy: NAME[:option=value...]"
    parser.add_argument("--policy", metavar="P", default="", type=flags.plugin, help=policy_help)
    parser.add_argument(
        "--add-node", metavar="GPUS", action="append", default=[], type=_nodes,
        help="a further node with this many GPUs, or several: 2x8",
    )  # fmt: skip
    parser.add_argument("--cancel", metavar="JOB", action="append", default=[], help="without this job")
    parser.add_argument(
        "--priority", metavar="JOB=N", action="append", default=[], type=_priority, help="a job with another priority"
    )
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    if not (args.policy or args.add_node or args.cancel or args.priority):
        raise InputError("nothing changes", hint="give --policy, --add-node, --cancel or --priority")
    from weft.access.client.forecasts import what_if
    from weft.access.wire.convert import variables
    from weft.access.wire.messages import WhatIfRequest

    request = WhatIfRequest(
        policy=args.policy, add_nodes=[gpus for nodes in args.add_node for gpus in nodes], cancel=args.cancel,
        priorities=variables(args.priority),
    )  # fmt: skip
    with connection.connect(args.scheduler) as client:
        found = what_if(client, request)
    if args.json:
        render.print_json(found)
        return 0
    from weft.cli.views.forecasts import print_what_if

    print_what_if(found, args.color)
    return 0


def _nodes(text: str) -> list[int]:
    """Parse the GPUs of further nodes: 8, or 2x8."""
    found = _NODES.fullmatch(text)
    if not found or not 1 <= int(found[1] or 1) <= 1000 or not int(found[2]):
        raise argparse.ArgumentTypeError(f"expected GPUs of a node, such as 8, or nodes of them, such as 2x8: {text!r}")
    return [int(found[2])] * int(found[1] or 1)


def _priority(text: str) -> tuple[str, str]:
    job, separator, value = text.rpartition("=")
    if not separator or not job or not re.fullmatch(r"-?[0-9]{1,9}", value):
        raise argparse.ArgumentTypeError(f"expected JOB=PRIORITY, such as 7=10, found {text!r}")
    return job, value
