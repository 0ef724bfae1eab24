"""Turn on persistence mode and DCGM; with --mps also the MPS daemon. What is on already stays as it is.

With MPS, processes on one GPU run at the same time instead of in turns. The price: a process that faults takes every
process with it that uses the same GPU through the daemon. Call it as the user of the worker: the daemon serves
one user."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.views import node_steps

EXAMPLE: Final = """examples:
  weft node prepare --dry-run
  weft node prepare --sudo
  weft node prepare --mps
  weft node prepare --hosts hosts.txt"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mps", action="store_true", help="start the MPS daemon: jobs on shared GPUs use it, and share their faults"
    )
    node_steps.add_sudo(parser)
    node_steps.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    if args.hosts:
        return node_steps.run_over_ssh(args, "prepare", *(["--mps"] if args.mps else []))
    from weft.node.care.preparation import prepare

    return node_steps.print_steps(args, prepare(with_mps=args.mps, dry_run=args.dry_run, sudo=args.sudo))
