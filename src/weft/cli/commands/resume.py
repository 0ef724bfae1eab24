"""Start jobs again after `weft pause`."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.views import change_report

EXAMPLE: Final = """example:
  weft resume"""


configure = flags.add_common


def run(args: argparse.Namespace) -> int:
    from weft.wire.views.operations import RESUME

    return change_report.operate(args, RESUME, lambda _: "jobs start again")
