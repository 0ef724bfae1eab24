"""Let held jobs start."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.views import change_report

EXAMPLE: Final = """examples:
  weft release 7
  weft release 3-7"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs(parser)
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    return change_report.change(args, "release", "released")
