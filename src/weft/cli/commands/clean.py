"""Delete ended jobs, with their logs and their other files in the state directory."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.views import change_report
from weft.model.status import ENDED

EXAMPLE: Final = """examples:
  weft clean 3-7
  weft clean --all"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs_or_all(parser, "every job that has ended")
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    flags.check_jobs_or_all(args)
    return change_report.change(args, "forget", "forgot", ENDED if args.all else ())
