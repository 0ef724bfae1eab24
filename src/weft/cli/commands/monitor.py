"""Show workers, GPUs and jobs with their progress, and refresh until Ctrl-C.

In a pipe, print one view after the other; with --json, one object per refresh, each on a line."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render, tables
from weft.cli.views import monitor
from weft.errors import NotFound, Unreachable

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.views.answers.nodes import MonitorView

EXAMPLE: Final = """examples:
  weft monitor
  weft monitor --worker n1 --refresh 5
  weft monitor --json --count 1"""
REFRESH_S: Final = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--worker", metavar="ID", help="only this worker, its GPUs and its jobs")
    parser.add_argument(
        "--refresh", metavar="S", type=flags.seconds, default=REFRESH_S, help="refresh every S seconds (1)"
    )
    parser.add_argument(
        "--count", metavar="N", type=flags.whole_number(1), default=0, help="stop after N refreshes; 0: until Ctrl-C"
    )
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    client: Client | None = _connect(args.scheduler)
    left = args.count
    try:
        while True:
            try:
                client = client or _connect(args.scheduler)
                _show(_query(client, args.worker), args)
            except Unreachable as error:  # the scheduler may come back
                _close(client)
                client = None
                render.print_message(f"{str(error).partition(chr(10))[0]}; trying again")
            left -= 1
            if left == 0:
                return 0
            time.sleep(args.refresh)
    except KeyboardInterrupt:
        return 0
    finally:
        _close(client)


def _connect(scheduler: str | None) -> Client:
    return connection.connect_to_running(
        scheduler, "start one with weft server for a cluster, or weft up for this machine"
    )


def _close(client: Client | None) -> None:
    if client is not None:
        client.close()


def _query(client: Client, worker: str | None) -> MonitorView:
    queue, gpus, nodes = client.queue(), client.gpus(), client.nodes()
    if worker is not None and all(node.node != worker for node in nodes.nodes):
        there = ", ".join(node.node for node in nodes.nodes) or "none"
        raise NotFound(f"no worker {worker!r}\n  workers: {there}")
    return monitor.combine(queue, gpus, nodes, worker)


def _show(seen: MonitorView, args: argparse.Namespace) -> None:
    if args.json:
        render.print_json(seen)
    else:
        colour, narrow = render.use_colour(args.color), render.is_terminal()
        screen = None
        if render.can_move_cursor():
            columns, lines = tables.terminal_size()
            screen = monitor.Screen(columns, lines - 1)
        tables.redraw(monitor.draw(seen, colour=colour, narrow=narrow, screen=screen))
    sys.stdout.flush()
