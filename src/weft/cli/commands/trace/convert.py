"""Write a trace in another format. Values missing from the trace, such as models, are drawn with the seed."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from weft.cli import render, workload_flags
from weft.errors import InputError

EXAMPLE: Final = """examples:
  weft trace convert philly.csv.gz trace.csv --to weft --seed 1
  weft trace convert trace.csv trace.jsonl.gz --to weft-jsonl"""

FORMATS: Final = ("weft", "weft-jsonl", "muri", "philly", "elasticflow")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="IN", help="a trace, gzipped or not; demo: the built-in trace")
    parser.add_argument("target", metavar="OUT", help="the file to write, gzipped if it ends in .gz")
    parser.add_argument("--to", choices=FORMATS, required=True, help="format to write")
    parser.add_argument(
        "--format", choices=workload_flags.FORMATS, default="auto", help="format of IN (default: by its header)"
    )
    parser.add_argument(
        "--seed", metavar="N", type=workload_flags.WHOLE, default=0, help="seed for values missing from IN (0)"
    )
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")


def run(args: argparse.Namespace) -> int:
    from weft.inputs.files import check_target, write_file
    from weft.lab.compare.workload import open_trace
    from weft.sim.traces.writers import losses, to_bytes

    source, target = Path(args.trace), Path(args.target)
    check_target(target, force=args.force)
    if source.exists() and target.exists() and source.samefile(target):
        raise InputError(
            "input and output are the same file", where=args.target, hint="give another file for the output"
        )
    trace = open_trace(args.trace, format=args.format, seed=args.seed)
    write_file(target, to_bytes(trace, args.to, zipped=target.name.endswith(".gz")))
    lost = losses(trace, args.to)
    if args.json:
        head = {"schema": 1, "file": args.target, "format": args.to, "jobs": len(trace.jobs), "seed": args.seed}
        render.print_json({**head, "lost": lost})
        return 0
    for what, count in lost.items():
        render.print_message(f"{args.to} cannot carry {what}: {count:,} of {len(trace.jobs):,} jobs")
    render.print_message(f"wrote {len(trace.jobs):,} jobs to {args.target}")
    return 0
