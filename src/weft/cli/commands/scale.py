"""Set how many replicas a service has: a number, or the bounds of its autoscaler."""

from __future__ import annotations

import argparse
import re
from typing import Final

from weft.cli import connection, flags, render
from weft.errors import InputError

EXAMPLE: Final = """examples:
  weft scale chat 3
  weft scale chat 0..8"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("service", metavar="SERVICE", help="its name")
    parser.add_argument("replicas", metavar="N|A..B", help="a number, or the fewest and the most")
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    from weft.access.wire.messages import ServiceChange

    least, most = parse_bounds(args.replicas)
    request = ServiceChange(service=args.service, verb="scale", min_replicas=least, max_replicas=most)
    with connection.connect(args.scheduler) as client:
        found = client.change_service(request)
    if args.json:
        render.print_json(found)
    else:
        render.print_message(f"{found.service} has {args.replicas} replica{'s' * (most != 1)}")
    return 0


def parse_bounds(text: str) -> tuple[int, int]:
    """Parse 3, or 0..8."""
    match = re.fullmatch(r"([0-9]{1,6})(?:\.\.([0-9]{1,6}))?", text)
    if match is None:
        raise InputError(f"{text[:40]!r} is no number of replicas", hint="such as 3, or 0..8")
    least = int(match[1])
    return least, int(match[2]) if match[2] else least
