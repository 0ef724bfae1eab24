"""Go back to the last version of a service that was ready once and was not rolled back, or to another one."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render

EXAMPLE: Final = """examples:
  weft rollback chat
  weft services chat --history
  weft rollback chat --to 3"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("service", metavar="SERVICE", help="its name")
    parser.add_argument("--to", metavar="N", type=flags.whole_number(1, 2**32 - 1), default=0, help="this version")
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    from weft.access.wire.messages import ServiceChange

    with connection.connect(args.scheduler) as client:
        found = client.change_service(ServiceChange(service=args.service, verb="rollback", version=args.to))
    if args.json:
        render.print_json(found)
    else:
        render.print_message(f"{found.service} is {found.outcome}, as version {found.version}")
    return 0
