"""Send a test message from the scheduler to a target, or to all default targets, and report the result."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render

EXAMPLE: Final = """examples:
  weft notify test
  weft notify test team"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", nargs="?", default="", help="its name (default: all default ones)")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.notify import TEST_TARGET

    with connection.connect_or_start(args.scheduler) as client:
        found = client.operate(TEST_TARGET, target=args.target)
    if args.json:
        render.print_json(found)
    else:
        for each in found.targets:
            text = f"could not be delivered: {each.error}" if each.error else "was delivered"
            render.print_message(f"the test message to {each.name} ({each.kind}) {text}")
    return 1 if any(each.error for each in found.targets) else 0
