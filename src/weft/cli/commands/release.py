"""Lets held jobs start."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render
from weft.cli.views import change_report

EXAMPLE: Final = """examples:
  weft release 7
  weft release 3-7"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs(parser)
    flags.add_scheduler(parser)
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with connection.reach(args.scheduler) as client:
        return change_report.report(args, "released", client.change("release", args.jobs))
