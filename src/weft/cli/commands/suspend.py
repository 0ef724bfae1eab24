"""Stop the processes of running jobs with SIGSTOP. They keep their GPUs and memory until `weft resume JOB`."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.views import change_report

EXAMPLE: Final = """A suspended job is S in the queue, and does not come closer to its time limit.

examples:
  weft suspend 7
  weft resume 7"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs(parser)
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    return change_report.change(args, "suspend", "suspended")
