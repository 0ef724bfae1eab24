"""Show the workspace: counts of tasks by state, its GPUs, and a line per task."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import render, tables
from weft.cli.views import workspace_table

if TYPE_CHECKING:
    from weft.workspace.status import WorkspaceView

EXAMPLE: Final = """example:
  weft workspace status --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(args: argparse.Namespace) -> int:
    from weft.workspace import scheduler
    from weft.workspace.config import read
    from weft.workspace.sessions import scheduler_session
    from weft.workspace.status import is_busy, status

    config = read(args.dir, args.config)
    client = scheduler.connect_if_used()
    warning = ""
    if client is None:
        found = status(config, None)
    else:
        with client:
            found = status(config, client)
            if is_busy(found):  # the session may have died
                warning = scheduler_session.reopen_session(config, client)
    if args.json:
        render.print_json(found)
        return 0
    _show(found, args.color)
    if warning:
        render.print_message(warning)
    return 0


def _show(found: WorkspaceView, color: str) -> None:
    print(workspace_table.headline(found))
    if found.gpus:
        print()
        tables.print_table(*workspace_table.gpus(found), color)
    if found.counts["waiting"] and any(gpu.limit < found.max_jobs_per_gpu for gpu in found.gpus):
        print(
            f"max_jobs_per_gpu is {found.max_jobs_per_gpu} in the config: "
            "weft workspace start applies it to the waiting tasks"
        )
    if found.tasks:
        print()
        tables.print_table(*workspace_table.tasks(found), color)
