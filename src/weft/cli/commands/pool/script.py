"""Print what an allocation of a pool runs: a batch script of Slurm, a request to Ray, a manifest of Kubernetes."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render

EXAMPLE: Final = """example:
  weft pool script a100"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", metavar="NAME", help="the pool")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.pools import POOL_SCRIPT

    with connection.connect(args.scheduler) as client:
        found = client.operate(POOL_SCRIPT, pool=args.pool)
    if args.json:
        render.print_json(found)
    else:
        print(found.script, end="" if found.script.endswith("\n") else "\n")
    return 0
