"""Show GPUs, jobs, nodes, services and events on one screen that follows the scheduler.

Keys are listed at the bottom and with ?. The mouse works. Commands that end work ask first."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render

EXAMPLE: Final = """examples:
  weft top
  weft top --scheduler gpu1:50051"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    render.require_screen("weft top")
    client = connection.connect_to_running(
        args.scheduler, "start one with weft server for a cluster, or weft up for this machine"
    )
    with client:
        where = client.where
    from weft.tui.app import Top  # Textual takes a while
    from weft.tui.sources.live import LiveSource

    Top(LiveSource(where)).run()
    return 0
