"""Opens the tmux session of a job. For a job without one, it follows what the job writes.

Leaving the session (Ctrl-B D) leaves the job alone; so does closing it."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Final

from weft.ui import flags, render, session

if TYPE_CHECKING:
    from weft.client import Client

EXAMPLE: Final = """examples:
  weft attach 7
  weft attach exp1"""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs(parser, several=False)
    flags.add_scheduler(parser)
    render.add_arguments(parser, json=False)


def run(args: argparse.Namespace) -> int:
    command: list[str] = []
    with session.reach(args.scheduler) as client:
        job = client.query("job", [args.job])["jobs"]
        if len(job) > 1:
            from weft.errors import NotFound

            raise NotFound(f"{args.job!r} is {len(job)} jobs\n  name one of them by its id")
        if render.can_ask() and render.is_terminal():
            command = _command(client, job[0]["id"])
        if not command:
            _follow(client, job[0]["id"])
    if command:
        os.execvp(command[0], command)
    return 0


def _command(client: Client, job: str) -> list[str]:
    """What opens its session; empty where it has none, or runs elsewhere."""
    from weft.wire.places import Places

    if not isinstance(client.where, Places):
        return []
    from weft.workspace.sessions import Tmux
    from weft.workspace.tags import Tag, state_mark

    tmux, state = Tmux(), state_mark(client.where.state)
    found: list[tuple[int, str]] = []
    for each in tmux.all():
        tag = Tag.read(each.tag)
        if tag is not None and (tag.state, tag.job) == (state, job) and tag.run.isdecimal():
            found.append((int(tag.run), each.name))
    return tmux.attach_command(max(found)[1]) if found else []


def _follow(client: Client, job: str) -> None:
    from weft.ui.commands.logs import write

    write(client.follow(job, lines=1000), follow=True)
