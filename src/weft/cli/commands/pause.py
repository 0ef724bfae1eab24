"""Start no new jobs until `weft resume`. Running jobs continue."""

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

    return change_report.operate(args, PAUSE, lambda _: "no new jobs start before weft resume; running jobs continue")
