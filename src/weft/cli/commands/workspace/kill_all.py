"""End every task of this workspace and close its sessions. Other workspaces and jobs are not affected."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from weft.cli import render
from weft.text import plural

EXAMPLE: Final = """example:
  weft workspace kill-all -y"""
TASKS_LEFT: Final = 1


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")


def run(args: argparse.Namespace) -> int:
    from weft.workspace import locks, scheduler, task_jobs
    from weft.workspace.config import read
    from weft.workspace.sessions import scheduler_session

    config = read(args.dir, args.config)
    client = scheduler.connect_if_used()
    ended: list[str] = []
    left: list[str] = []
    if client is not None:
        with client:
            there = task_jobs.unfinished(config, client)
            if there and not args.yes and render.can_prompt() and not _is_sure(len(there), config.task_name):
                render.print_message("nothing was ended")
                return 1
            with locks.tasks_locked(client.paths.runtime, config):
                ended = task_jobs.cancel_all(config, client)
                scheduler_session.append_log(config, f"kill-all: ending {plural(len(ended), 'task')}")
            left = task_jobs.wait_until_ended(config, client)
    closed = scheduler_session.close_sessions(config)
    if args.json:
        render.print_json({"schema": 1, "ended": ended, "left": left, "sessions": closed})
    else:
        print(f"ended {plural(len(ended) - len(left), 'task')}, closed {plural(closed, 'session')}")
        if left:
            render.print_message(f"still ending: {', '.join(left)}; see weft show {left[0]}")
    return TASKS_LEFT if left else 0


def _is_sure(count: int, task_name: str) -> bool:
    sys.stderr.write(f"end {plural(count, 'task')} of {task_name}, and close its sessions? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
