"""List the stored profiles: stage times in milliseconds per iteration, alone on their GPUs."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render, tables
from weft.cli.views import profile_table

EXAMPLE: Final = """example:
  weft profile list --json"""

configure = flags.add_scheduler


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.profiles import ProfilesView

    found = connection.ask_if_running(
        args.scheduler, lambda client: client.list_all(ProfilesView, "profiles"), ProfilesView
    )
    if args.json:
        render.print_json(found)
        return 0
    tables.print_table(profile_table.COLUMNS, [profile_table.row(each) for each in found.profiles], args.color)
    if not found.profiles:
        render.print_message("no profiles; weft profile run -- CMD measures one")
    return 0
