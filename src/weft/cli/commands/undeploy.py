"""Remove a service: its replicas answer the requests they have, then stop. --now cuts them off."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render

EXAMPLE: Final = """examples:
  weft undeploy chat
  weft undeploy chat --now"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("service", metavar="SERVICE", help="its name")
    parser.add_argument("--now", action="store_true", help="do not wait for the requests that its replicas have")
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    from weft.access.wire.messages import ServiceChange

    with connection.connect(args.scheduler) as client:
        found = client.change_service(ServiceChange(service=args.service, verb="undeploy", now=args.now))
    if args.json:
        render.print_json(found)
    else:
        render.print_message(f"{found.service} is {found.outcome}")
    return 0
