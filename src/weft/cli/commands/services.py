"""List inference services: replicas, load and URL; or the versions of one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render, tables
from weft.cli.tables import Cell, Column
from weft.cli.views.live_services import REPLICA_COLUMNS, replica_rows
from weft.errors import InputError, UnknownName
from weft.text import format_time

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.views.answers.services import RevisionView, ServiceView

EXAMPLE: Final = """examples:
  weft services
  weft services --replicas
  weft services chat --history
  weft services --json"""

COLUMNS: Final = (
    Column("SERVICE", max_width=30), Column("READY", right=True), Column("REPLICAS"), Column("REQUESTS/S", right=True),
    Column("QUEUED", right=True), Column("VERSION", right=True), Column("SCALER"), Column("URL", max_width=60),
)  # fmt: skip


HISTORY_COLUMNS: Final = (
    Column("VERSION", right=True), Column("DEPLOYED"), Column("USER"), Column("OUTCOME"), Column("RUNS", max_width=60),
    Column("WHY", max_width=80),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("service", metavar="SERVICE", nargs="?", default="", help="this service alone")
    parser.add_argument("--history", action="store_true", help="list the versions of SERVICE, the newest first")
    parser.add_argument("--replicas", action="store_true", help="list the replicas of all services")
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.services import ServicesView

    if args.history and not args.service:
        raise InputError("--history needs the name of a service", hint="weft services lists their names")

    def ask(client: Client) -> ServicesView:
        found = client.services(args.service)
        if args.service and not found.services:
            raise UnknownName("service", args.service[:80], [each.name for each in client.services().services])
        return found

    found = connection.ask_if_running(args.scheduler, ask, ServicesView)
    if args.json:
        render.print_json(found)
        return 0
    if args.history:
        tables.print_table(HISTORY_COLUMNS, [_version_row(each) for each in found.services[0].history], args.color)
    elif args.replicas:
        tables.print_table(REPLICA_COLUMNS, replica_rows(found.services), args.color)
    else:
        tables.print_table(COLUMNS, [_row(each) for each in found.services], args.color)
    for each in found.services:
        for problem in filter(None, (each.waiting_for, each.failing)):
            render.print_message(f"{each.name}: {problem}")
    if not found.services:
        render.print_message("no services; weft deploy FILE.yaml deploys one")
    return 0


def _version_row(revision: RevisionView) -> list[Cell]:
    return [
        Cell(str(revision.version)), Cell(format_time(revision.deployed)), Cell(revision.who or "-"),
        Cell(revision.outcome), Cell(revision.summary), Cell(revision.why),
    ]  # fmt: skip


def _row(service: ServiceView) -> list[Cell]:
    bounds = f"{service.min_replicas}..{service.max_replicas}"
    return [
        Cell(service.name), Cell(f"{service.ready}/{service.wanted}"), Cell(bounds), Cell(f"{service.rate:.1f}"),
        Cell(str(service.queued)), Cell(str(service.version)), Cell(service.scaler), Cell(service.url or "-"),
    ]  # fmt: skip
