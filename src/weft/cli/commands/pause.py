"""Starts nothing new until `weft resume`. Running jobs go on."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render

EXAMPLE: Final = """example:
  weft pause"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_scheduler(parser)
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with connection.begin(args.scheduler) as client:
        found = client.operate("pause")
    if args.json:
        render.print_json(found)
    else:
        render.say("nothing new is started before weft resume; running jobs go on")
    return 0
