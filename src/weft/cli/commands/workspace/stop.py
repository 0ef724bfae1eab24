"""Stop starting tasks. Running tasks finish, the queue is kept, and the next start continues it."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import render
from weft.text import plural

EXAMPLE: Final = """example:
  weft workspace stop"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(args: argparse.Namespace) -> int:
    from weft.workspace import locks, scheduler, task_jobs
    from weft.workspace.config import read
    from weft.workspace.sessions import scheduler_session

    config = read(args.dir, args.config)
    waiting = running = 0
    client = scheduler.connect_if_used()
    if client is not None:
        with client, locks.tasks_locked(client.paths.runtime, config):
            waiting, running = task_jobs.stop(config, client)
            scheduler_session.append_log(config, f"stop: {waiting} held, {running} still running")
    if args.json:
        render.print_json({"schema": 1, "waiting": waiting, "running": running})
    else:
        print(f"stopped: {plural(waiting, 'task')} held, {running:,} still running; start continues")
    return 0
