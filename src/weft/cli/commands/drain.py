"""Start no new jobs on some GPUs, a node, or all GPUs. Jobs already there continue. `weft undrain` undoes it."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.views import change_report

EXAMPLE: Final = """examples:
  weft drain 0,1
  weft drain n3 n4[0,1]
  weft drain"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "gpus", metavar="GPU", nargs="*", help="numbers, a node, or n1[0,1] (default: all GPUs of this machine)"
    )
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    from weft.wire.views.operations import DRAIN

    return change_report.operate(
        args, DRAIN, lambda found: f"no new jobs start on {', '.join(found.places)}", gpus=" ".join(args.gpus)
    )
