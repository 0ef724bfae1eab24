"""Start no new jobs on some GPUs, a node, or all GPUs. Jobs already there continue, unless --move is given: then they
save their work and run elsewhere. `weft undrain` undoes it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import flags
from weft.cli.views import change_report
from weft.text import plural

if TYPE_CHECKING:
    from weft.views.answers.operations import DrainedView

EXAMPLE: Final = """examples:
  weft drain 0,1
  weft drain n3 n4[0,1]
  weft drain n3 --move
  weft drain"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "gpus", metavar="GPU", nargs="*", help="numbers, a node, or n1[0,1] (default: all GPUs of this machine)"
    )
    parser.add_argument(
        "--move", action="store_true", help="let the jobs there save their work, stop them, and run them elsewhere"
    )
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.operations import DRAIN

    options = {"move": "yes"} if args.move else {}
    return change_report.operate(args, DRAIN, _words, gpus=" ".join(args.gpus), **options)


def _words(found: DrainedView) -> str:
    moved = "" if found.moved is None else f"; {plural(len(found.moved), 'job')} moved away"
    return f"no new jobs start on {', '.join(found.places)}{moved}"
