"""Deploy an inference service from a YAML file, or change one: replicas are replaced without a pause.

The same file twice changes nothing. The requests go to the URL that is printed."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render

EXAMPLE: Final = """examples:
  weft deploy chat.yaml
  weft deploy chat.yaml --wait
  weft deploy chat.yaml --dry-run"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the description of the service, YAML or JSON")
    parser.add_argument(
        "--wait", action="store_true", help="return once its replicas of this version are ready; with min: 0 start one"
    )
    parser.add_argument(
        "--timeout", metavar="S", type=flags.seconds, default=300.0, help="with --wait: give up after this time (300)"
    )
    parser.add_argument("--dry-run", action="store_true", help="check the file, deploy nothing")
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    from weft.access.client.services import describe, wait_for_url, wait_until_ready
    from weft.access.endpoints.config import scheduler_address
    from weft.inputs.files import read_text

    where = scheduler_address(args.scheduler)
    request = describe(read_text(args.file), args.file, where, dry_run=args.dry_run, start=args.wait)
    with connection.connect_or_start(args.scheduler) as client:
        found = client.deploy(request)
        if args.wait and not args.dry_run:
            wait_until_ready(client, found.service, args.timeout, found.version, _print_reason)
        url = found.url or ("" if args.dry_run else wait_for_url(client, found.service))
    if args.json:
        from weft.views.answers.base import replace_fields

        render.print_json(replace_fields(found, url=url))
        return 0
    outcome = f"would be {found.outcome}" if args.dry_run and found.outcome != "unchanged" else found.outcome
    render.print_message(f"{found.service} is {outcome}, version {found.version}")
    if url:
        print(url)
    return 0


def _print_reason(reason: str) -> None:
    render.print_message(f"not ready yet: {reason}")
