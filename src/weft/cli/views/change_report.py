"""How commands that change jobs report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from weft.cli import render
from weft.cli.text import plural, visible

if TYPE_CHECKING:
    from weft.wire.messages import ChangeReply

REFUSED: Final = 6
SHOWN: Final = 10


def ending(job: Mapping[str, Any]) -> str:
    """How a job ended, in a few words."""
    code = job["exit_code"]
    reason = {"timeout": "out of time", "oom": "out of GPU memory"}.get(job["reason"], job["reason"])
    why = f", {reason}" if reason not in ("", job["status"]) else ""
    return f"job {job['id']} is {job['status']}" + (f", exit code {code}" if code else "") + why


def report(args: argparse.Namespace, done: str, reply: ChangeReply) -> int:
    """Which jobs were changed, and which were not and why."""
    refused = {each.name: each.value for each in reply.refused}
    if args.json:
        render.print_json({"schema": 1, "jobs": list(reply.ids), "refused": refused})
    else:
        for job in reply.ids:
            print(f"{done} {job}")
        for job, why in refused.items():
            render.say(f"job {job} was left as it was: {why}")
    return REFUSED if refused else 0


def report_nothing(args: argparse.Namespace) -> int:
    if args.json:
        render.print_json({"schema": 1, "jobs": [], "refused": {}})
    return 0


def is_sure(question: str, jobs: list[dict[str, Any]]) -> bool:
    """Asks a person."""
    named = ", ".join(f"{job['id']} ({visible(job['name'])})" for job in jobs[:SHOWN])
    more = f" and {len(jobs) - SHOWN:,} more" if len(jobs) > SHOWN else ""
    sys.stderr.write(f"{question} {plural(len(jobs), 'running job')}: {named}{more}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
