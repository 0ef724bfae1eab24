"""Go back to the version of a service before the last deployment."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render

EXAMPLE: Final = """examples:
  weft rollback chat"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("service", metavar="SERVICE", help="its name")
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    from weft.wire.messages import ServiceChange

    with connection.connect(args.scheduler) as client:
        found = client.change_service(ServiceChange(service=args.service, verb="rollback"))
    if args.json:
        render.print_json(found)
    else:
        render.print_message(f"{found.service} is {found.outcome}")
    return 0
