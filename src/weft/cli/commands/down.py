"""End this user's scheduler, and return when it has ended. Running jobs continue, and the next scheduler finds them."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, render
from weft.cli.views import change_report
from weft.text import plural

EXAMPLE: Final = """examples:
  weft down
  weft down --kill"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kill", action="store_true", help="also kill running jobs, and close the tmux sessions of workspaces"
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation if jobs are running")
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from weft.access.endpoints.paths import user_paths

    if not user_paths().answers():
        if args.json:
            render.print_json({"schema": 1, "pid": None, "running": 0})
        else:
            render.print_message("no scheduler is running")
        return 0
    from weft.access.client.local_scheduler import end_scheduler

    with connection.connect(connection.LOCAL) as client:
        running = [job for job in client.queue().jobs if job.place]
        ask = args.kill and running and not args.yes and render.can_prompt()
        if ask and not change_report.confirm("kill", running):
            render.print_message("aborted; nothing was stopped")
            return 1
        answer = end_scheduler(client, **({"kill": "yes"} if args.kill else {}))
    if args.kill:
        from weft.workspace.sessions.backends import Tmux
        from weft.workspace.sessions.display import close_sessions

        close_sessions(user_paths().state, Tmux())
    if args.json:
        render.print_json({"schema": 1, "pid": answer.pid, "running": answer.running})
    elif answer.running and not args.kill:
        render.print_message(f"ended; {plural(answer.running, 'job')} still running, weft up finds them again")
    else:
        render.print_message("ended")
    return 0
