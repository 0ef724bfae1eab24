"""Lets held jobs start."""

from __future__ import annotations

import argparse
from typing import Final

from weft.ui import flags, outcome, render, session

EXAMPLE: Final = """examples:
  weft release 7
  weft release 3-7"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs(parser)
    flags.add_scheduler(parser)
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    with session.reach(args.scheduler) as client:
        return outcome.report(args, "released", client.change("release", args.jobs))
