"""Lets jobs start again after `weft pause`."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render

EXAMPLE: Final = """example:
  weft resume"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_scheduler(parser)
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with connection.begin(args.scheduler) as client:
        found = client.operate("resume")
    if args.json:
        render.print_json(found)
    else:
        render.say("jobs are started again")
    return 0
