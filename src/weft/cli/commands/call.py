"""Send one request to a service, and print the answer as it comes.

The exit code is 1 if the status of the answer is 400 or more."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render
from weft.cli.workload_units import latency

if TYPE_CHECKING:
    from weft.access.client.service_calls import Reply

EXAMPLE: Final = """examples:
  weft call chat /health
  weft call chat /v1/completions -d '{"model": "tiny", "prompt": "hello"}'
  weft call chat /predict -d @picture.json -H 'X-Team: a' -i"""

MAX_BODY_BYTES: Final = 64 << 20
METHODS: Final = ("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS")


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("service", metavar="SVC", help="name of the service")
    add("path", metavar="PATH", nargs="?", default="/", help="path below the service (/)")
    add("-X", "--method", metavar="M", choices=METHODS, help="method (GET; with a body POST)")
    add("-d", "--data", metavar="TEXT|@FILE", help="body; @FILE reads it from a file")
    add("-H", "--header", metavar="H", action="append", default=[], help="another header, such as 'X-Team: a'")
    add("-i", "--include", action="store_true", help="print the status and headers of the answer too")
    add("--timeout", metavar="T", type=latency, default=120.0, help="give up after this silence (120s)")
    flags.add_common(parser, json=False)


def run(args: argparse.Namespace) -> int:
    from weft.access.client.service_calls import call_service
    from weft.access.client.services import require_service, wait_for_url
    from weft.access.endpoints.config import scheduler_address
    from weft.cli.request_flags import parse_headers, read_body

    headers = parse_headers(args.header)
    body = None if args.data is None else read_body(args.data, MAX_BODY_BYTES)
    with connection.connect(args.scheduler) as client:
        url = require_service(client, args.service).url or wait_for_url(client, args.service)
    where = scheduler_address(args.scheduler)
    with call_service(url, args.path, args.method or "", body, headers, args.timeout, where) as reply:
        if args.include:
            _print_head(reply)
        for piece in reply.pieces():
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        if reply.status >= 400:
            render.print_message(f"{args.service} answered {reply.status}")
    return 1 if reply.status >= 400 else 0


def _print_head(reply: Reply) -> None:
    print(f"HTTP {reply.status}")
    for name, value in reply.headers.items():
        print(f"{name}: {value}")
    print(flush=True)
