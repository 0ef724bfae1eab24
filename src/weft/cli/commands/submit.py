"""Put jobs into the queue. The first job starts this user's scheduler.

A job is a command after --, or a task of a file: JSON or YAML, one task or a list, with the flags as keys. Weft reads
the #SBATCH lines of a batch script. Flags override files, with a message where they differ."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render
from weft.cli.submit import task_flags
from weft.text import escape_controls, plural

if TYPE_CHECKING:
    from weft.cli.submit.submission import SubmittedView

EXAMPLE: Final = """examples:
  weft submit --gpus 2 --memory 8G --name resnet -- python train.py --epochs 90
  weft submit --array 0-9%4 -t 2h -- sh -c 'python sweep.py --seed $WEFT_ARRAY_TASK_ID'
  weft submit --after 7,8 --param lr=0.1 -- python eval.py --lr {params.lr}
  weft submit --config task.json
  weft submit --config task.json -- python train.py --lr {params.lr}
  weft submit train.sbatch
  id=$(weft submit --quiet -- python train.py)"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "weft submit [flags] -- CMD ARGS...\n       weft submit [flags] --config FILE [-- CMD ARGS...]"
    task_flags.add_arguments(parser)
    parser.add_argument("--config", "-c", metavar="FILE", help="file of tasks, JSON or YAML; -: standard input")
    parser.add_argument("--dry-run", action="store_true", help="check everything, submit nothing")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only the id")
    flags.add_common(parser)
    parser.add_argument("command", metavar="-- CMD ARGS...", nargs=argparse.REMAINDER, help="the command to run")


def run(args: argparse.Namespace) -> int:
    from weft.cli.submit import submission

    args.command = task_flags.strip_dashes(args.command)
    prepared = submission.prepare(args, args.config)
    specs = prepared.request.jobs
    with connection.connect_or_start(args.scheduler) as client:
        ids = prepared.send(client)
        jobs = submission.submitted_views(specs, ids)
        if args.json:
            advice = [] if args.quiet else submission.advise(client, specs, ids)
            notes = [*client.submit_notes, *advice]
            render.print_json({"schema": 1, "ids": ids, "jobs": jobs, "dry_run": args.dry_run, "notes": notes})
            return 0
        for note in client.submit_notes if not args.quiet else ():
            render.print_message(note)
        if args.dry_run:
            for spec in specs:
                print(escape_controls(submission.describe(spec)))
            return 0
        for job in jobs:
            print(job.id if args.quiet else _describe(job))
        if not args.quiet:
            sys.stdout.flush()  # the ids do not wait for the advice
            for note in submission.advise(client, specs, ids):
                render.print_message(note)
    return 0


def _describe(job: SubmittedView) -> str:
    name = f" ({job.name})" if job.name else ""
    return f"submitted job {job.id}{name}" + (f": {plural(len(job.tasks), 'task')}" if job.tasks is not None else "")
