"""Deploy an inference service from a YAML file, or change one: replicas are replaced without a pause.

The same file twice changes nothing. The requests go to the URL that is printed."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render
from weft.errors import Refused

if TYPE_CHECKING:
    from weft.client import Client
    from weft.wire.views.services import DeployedView, ServiceView

EXAMPLE: Final = """examples:
  weft deploy chat.yaml
  weft deploy chat.yaml --wait
  weft deploy chat.yaml --dry-run"""

POLL_S: Final = 0.2
URL_WAIT_S: Final = 10.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the description of the service, YAML or JSON")
    parser.add_argument("--wait", action="store_true", help="return once its replicas of this version are ready")
    parser.add_argument(
        "--timeout", metavar="S", type=flags.seconds, default=300.0, help="with --wait: give up after this time (300)"
    )
    parser.add_argument("--dry-run", action="store_true", help="check the file, deploy nothing")
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    from weft.endpoints.config import scheduler_address
    from weft.inputs.files import read_text
    from weft.jobspec.environment import capture
    from weft.wire.messages import DeployRequest

    text = read_text(args.file)
    env = capture(os.environ, elsewhere=scheduler_address(args.scheduler) is not None)
    request = DeployRequest(description=text, file=args.file, chdir=os.getcwd(), env=env, dry_run=args.dry_run)
    with connection.connect_or_start(args.scheduler) as client:
        found = client.deploy(request)
        if args.wait and not args.dry_run:
            wait_until_ready(client, found, args.timeout)
        url = found.url or ("" if args.dry_run else wait_for_url(client, found.service))
    if args.json:
        from weft.wire.views.base import replace_fields

        render.print_json(replace_fields(found, url=url))
        return 0
    outcome = f"would be {found.outcome}" if args.dry_run and found.outcome != "unchanged" else found.outcome
    render.print_message(f"{found.service} is {outcome}, version {found.version}")
    if url:
        print(url)
    return 0


def wait_for_url(client: Client, service: str) -> str:
    """Return the URL of a service once a router serves it; empty: there is none within a few seconds."""
    until = time.monotonic() + URL_WAIT_S
    while time.monotonic() < until:
        found = find_service(client, service)
        if found is not None and found.url:
            return found.url
        time.sleep(POLL_S)
    return ""


def wait_until_ready(client: Client, deployed: DeployedView, timeout_s: float) -> None:
    """Wait until all wanted replicas of the present version are ready. Raise if that takes too long."""
    until = time.monotonic() + timeout_s
    while True:
        found = find_service(client, deployed.service)
        if found is None:
            raise Refused(f"{deployed.service} was undeployed meanwhile\n  weft services lists the services")
        ready = sum(each.status == "ready" and each.version == found.version for each in found.replicas)
        if ready >= max(found.wanted, 1 if found.min_replicas else 0):
            return
        if time.monotonic() > until:
            waits = f": {found.waiting_for}" if found.waiting_for else ""
            raise Refused(
                f"{ready} of {found.wanted} replicas of {found.name} are ready after {timeout_s:g} s{waits}\n"
                f"  weft services and weft logs {found.name}/INDEX show more"
            )
        time.sleep(POLL_S)


def find_service(client: Client, name: str) -> ServiceView | None:
    return next((each for each in client.services().services if each.name == name), None)
