"""Puts nothing new on some GPUs, on a node, or on any. Whoever is there stays; `weft undrain` undoes it."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render

EXAMPLE: Final = """examples:
  weft drain 0,1
  weft drain n3 n4[0,1]
  weft drain"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "gpus", metavar="GPU", nargs="*", help="numbers, a node, or n1[0,1] (default: all of this machine)"
    )
    flags.add_scheduler(parser)
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    return operate(args, "nothing new comes to")


def operate(args: argparse.Namespace, text: str, **options: str) -> int:
    with connection.begin(args.scheduler) as client:
        found = client.operate("drain", gpus=" ".join(args.gpus), **options)
    if args.json:
        render.print_json(found)
    else:
        render.say(f"{text} {', '.join(found['places'])}")
    return 0
