"""Cancel the trials of a sweep that have not ended. To stop some of them only, use weft cancel or weft hold."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from weft.cli import connection, flags, render
from weft.cli.commands.sweep.results import find_sweep
from weft.cli.views import change_report
from weft.model.status import ACTIVE, ENDED
from weft.text import plural

EXAMPLE: Final = """examples:
  weft sweep stop
  weft sweep stop train-1 -y"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sweep", metavar="SWEEP", nargs="?", default="", help="its name (default: your last sweep)")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation if trials are running")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    sweep, trials = find_sweep(args)
    left = [trial for trial in trials if trial.status not in ENDED]
    running = sum(trial.status in ACTIVE for trial in left)
    if running and not args.yes and render.can_prompt() and not _confirm(sweep.sweep, running):
        render.print_message("nothing was cancelled")
        return 1
    if not left:
        return change_report.report_nothing(args)
    with connection.connect(args.scheduler) as client:
        reply = client.change("cancel", [trial.id for trial in left])
    return change_report.report(args, "cancelled", reply)


def _confirm(sweep: str, running: int) -> bool:
    sys.stderr.write(f"cancel sweep {sweep} with {plural(running, 'running trial')}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
