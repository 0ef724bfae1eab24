"""End the MPS daemon that `weft node prepare --mps` started, and reset the GPUs that --gpu names.

Only on a node that is drained and empty: run weft drain first. A GPU that a process uses is not reset. Resetting a GPU
clears its ECC counters and hung contexts; it needs root on most systems. Call it as the user of the worker, with
--sudo: it looks at that user's workers."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.views import node_steps

EXAMPLE: Final = """examples:
  weft drain --move; weft node reset --gpu 3 --sudo; weft undrain
  weft node reset --dry-run"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--gpu", metavar="N", type=flags.whole_number(0, 4095), action="append", default=[],
        help="reset this GPU, by its number in nvidia-smi; repeat it for more (default: none)",
    )  # fmt: skip
    parser.add_argument(
        "--folder", metavar="DIR", action="append", default=[], help="also look at a worker with this --folder"
    )
    node_steps.add_sudo(parser)
    node_steps.add_arguments(parser)
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    if args.hosts:
        words = [word for gpu in args.gpu for word in ("--gpu", str(gpu))]
        words += [word for each in args.folder for word in ("--folder", each)]
        words += ["--scheduler", args.scheduler] if args.scheduler else []
        return node_steps.run_over_ssh(args, "reset", *words)
    from weft.access.endpoints import config
    from weft.node.care.reset import reset
    from weft.node.care.scheduler_side import blockers

    may_start = blockers(config.scheduler_address(args.scheduler))
    found = reset(args.gpu, may_start, dry_run=args.dry_run, sudo=args.sudo, folders=args.folder)
    return node_steps.print_steps(args, found)
