"""Starts nothing new until `weft resume`. Running jobs go on."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import flags
from weft.cli.views import change_report

EXAMPLE: Final = """example:
  weft pause"""


configure = flags.add_common


def run(args: argparse.Namespace) -> int:
    from weft.wire.views.operations import PAUSE

    return change_report.operate(args, PAUSE, lambda _: "nothing new is started before weft resume; running jobs go on")
