"""Keep waiting jobs from starting until they are released. A running job is held when it returns to the queue."""

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
