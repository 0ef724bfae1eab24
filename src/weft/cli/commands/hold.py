"""Keeps jobs that wait from starting, until they are released. One that runs is held if it comes to wait again."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.views import change_report

EXAMPLE: Final = """examples:
  weft hold 7
  weft hold 3-7 train"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs(parser)
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    return change_report.change(args, "hold", "held")
