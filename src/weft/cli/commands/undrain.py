"""Uses drained GPUs again."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli.commands import drain

EXAMPLE: Final = """examples:
  weft undrain 0
  weft undrain"""


def configure(parser: argparse.ArgumentParser) -> None:
    drain.configure(parser)


def run(args: argparse.Namespace) -> int:
    return drain.operate(args, "jobs may come again to", off="yes")
