"""Start jobs on drained GPUs again."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.commands import drain
from weft.cli.views import change_report

EXAMPLE: Final = """examples:
  weft undrain 0
  weft undrain"""


configure = drain.configure


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.operations import DRAIN

    return change_report.operate(
        args,
        DRAIN,
        lambda found: f"jobs may start again on {', '.join(found.places)}",
        gpus=" ".join(args.gpus),
        off="yes",
    )
