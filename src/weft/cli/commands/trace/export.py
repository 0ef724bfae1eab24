"""Write the history of a scheduler, or of a journal, as a trace for `weft sim` and `weft compare`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from weft.cli import flags, render
from weft.cli.commands import metrics
from weft.errors import InputError
from weft.text import plural

if TYPE_CHECKING:
    from weft.history.metrics.figures import Record
    from weft.history.metrics.history import History

EXAMPLE: Final = """examples:
  weft trace export --since 30d -o history.csv
  weft trace export --since 30d --anonymise -o public.jsonl.gz
  weft trace export results/journal.jsonl -o again.csv
  weft trace export --since 7d > week.csv"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "journal", metavar="JOURNAL", nargs="?", help="a journal: state.db or journal.jsonl (default: the scheduler's)"
    )
    metrics.add_selection(parser)
    parser.add_argument(
        "--anonymise", action="store_true", help="number users and jobs; leave out names, labels and names of nodes"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the file to write, in Weft's format: JSONL for .jsonl, gzip for .gz (default: CSV on standard output)",
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.inputs.files import check_target
    from weft.sim.traces.history import export
    from weft.sim.traces.writers import losses, to_bytes

    if args.output is not None:
        check_target(args.output, force=args.force)
    elif args.json or args.force:
        raise InputError("--json and --force need -o FILE", hint="without it, standard output is the trace")
    history, record = _read(args)
    name = args.output.removesuffix(".gz") if args.output is not None else "history"
    found = export(history, record.jobs, name=name, anonymise=args.anonymise)
    if not found.trace.jobs:
        raise _nothing(found.left_out)
    _write(args.output, to_bytes(
        found.trace, "weft-jsonl" if name.endswith(".jsonl") else "weft", zipped=(args.output or "").endswith(".gz")
    ))  # fmt: skip
    lost = {**found.lost, **losses(found.trace, "weft")}
    jobs = len(found.trace.jobs)
    if args.json:
        head = {"schema": 1, "file": args.output, "jobs": jobs, "gpus": _most_gpus(record)}
        render.print_json({**head, "left_out": found.left_out, "lost": lost})
        return 0
    for reason, count in found.left_out.items():
        render.print_message(f"left out {plural(count, 'job')}: {reason}")
    for what, count in lost.items():
        render.print_message(f"a trace cannot carry {what}: {count:,} of {plural(jobs, 'job')}")
    where = args.output or "standard output"
    render.print_message(f"wrote {plural(jobs, 'job')} to {where}; the cluster had up to {_most_gpus(record)} GPUs")
    return 0


def _write(path: str | None, content: bytes) -> None:
    from weft.inputs.files import write_file

    if path is not None:
        write_file(path, content)
    else:
        sys.stdout.write(content.decode())


def _read(args: argparse.Namespace) -> tuple[History, Record]:
    """Return the history, and the record of the jobs that the flags select."""
    chosen = metrics.selection(args)
    if args.journal is None:
        import time

        from weft.cli import live_history

        history = live_history.read(args.scheduler)
        return history, chosen.of(history.record, time.time())
    if args.scheduler is not None:
        raise InputError("a journal and --scheduler are both given", hint="give one or the other")
    from weft.inputs.files import read_text
    from weft.sim.output import is_journal, read_journal

    if not is_journal(args.journal):
        read_text(args.journal)  # explains a file that cannot be read
        raise InputError("not a journal", where=args.journal, hint="expected a state.db or a journal.jsonl")
    history = read_journal(args.journal)
    return history, chosen.of(history.record)


def _nothing(left_out: dict[str, int]) -> InputError:
    reasons = "; ".join(f"{count:,} {reason}" for reason, count in left_out.items())
    return InputError(f"no jobs to export{': ' if reasons else ''}{reasons}", hint="check --since, --user and --group")


def _most_gpus(record: Record) -> int:
    return max((gpus for _, gpus in record.gpus), default=0)
