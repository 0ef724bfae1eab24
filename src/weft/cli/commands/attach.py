"""Open the tmux session of a job. For a job without a session, follow its output.

Leaving the session (Ctrl-B D) or closing it does not affect the job."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.views.answers.jobs import JobDetailView

EXAMPLE: Final = """examples:
  weft attach 7
  weft attach exp1"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs(parser, several=False)
    flags.add_common(parser, json=False)


def run(args: argparse.Namespace) -> int:
    command: list[str] = []
    with connection.connect(args.scheduler) as client:
        jobs = client.jobs([args.job]).jobs
        if len(jobs) > 1:
            from weft.errors import NotFound

            raise NotFound(f"{args.job!r} names {len(jobs)} jobs\n  give the id of one of them")
        (job,) = jobs
        if render.can_prompt() and render.is_terminal():
            command = _command(client, job)
        if not command:
            _follow(client, job.id)
    if command:
        os.execvp(command[0], command)
    return 0


def _command(client: Client, job: JobDetailView) -> list[str]:
    """Return the command that opens the job's session, or an empty list if the job has none or runs elsewhere."""
    from pathlib import Path

    from weft.access.endpoints.paths import Paths

    if not isinstance(client.where, Paths):
        return []
    from weft.workspace.config import GROUP
    from weft.workspace.sessions.backends import load_backend
    from weft.workspace.sessions.tags import Tag, state_id
    from weft.workspace.tasks import BACKEND_PARAM, HOME_PARAM

    params = job.params if job.group.startswith(GROUP) else {}
    sessions = load_backend(
        params.get(BACKEND_PARAM, "tmux"), Path(params[HOME_PARAM]) if HOME_PARAM in params else None
    )
    state = state_id(client.where.state)
    found: list[tuple[int, str]] = []
    for each in [] if sessions.why_not() else sessions.all():
        tag = Tag.parse(each.tag)
        if tag is not None and (tag.state, tag.job) == (state, job.id) and tag.run.isdecimal():
            found.append((int(tag.run), each.name))
    return sessions.attach_command(max(found)[1]) if found else []


def _follow(client: Client, job: str) -> None:
    from weft.cli.commands.logs import write

    write(client.follow(job, lines=1000), follow=True)
