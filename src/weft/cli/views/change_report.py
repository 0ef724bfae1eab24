"""Reports of commands that change jobs or the scheduler."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from weft.access.wire.convert import pairs
from weft.cli import connection, render
from weft.text import escape_controls, plural

if TYPE_CHECKING:
    from weft.access.wire.messages import ChangeReply
    from weft.views.answers.base import Answer
    from weft.views.answers.jobs import JobView
    from weft.views.answers.operations import Operation

V = TypeVar("V", bound="Answer")
REFUSED: Final = 6
MAX_NAMES: Final = 10


def describe_end(job: JobView) -> str:
    """Describe how a job ended, in a few words."""
    code = job.exit_code
    reason = {"timeout": "out of time", "oom": "out of GPU memory", "ram": "out of main memory"}.get(
        job.reason, job.reason
    )
    why = f", {reason}" if reason not in ("", job.status) else ""
    return f"job {job.id} is {job.status}" + (f", exit code {code}" if code else "") + why


def report(args: argparse.Namespace, done: str, reply: ChangeReply) -> int:
    """Print the changed jobs, and the others with the reason. Several tasks of an array are one line.

    Return the exit code: tasks that cannot be changed are no error where other tasks of their array were.
    """
    refused = dict(pairs(reply.refused))
    changed = _by_array(reply.ids)
    if args.json:
        render.print_json({"schema": 1, "jobs": list(reply.ids), "refused": refused})
    else:
        for number, tasks in changed.items():
            print(f"{done} {tasks[0]}" if len(tasks) == 1 else f"{done} {number}: {plural(len(tasks), 'task')}")
        for why in dict.fromkeys(refused.values()):
            for number, tasks in _by_array(job for job in refused if refused[job] == why).items():
                some = f"{len(tasks):,} tasks of job {number} are unchanged, such as {tasks[0]}"
                render.print_message(f"{some if len(tasks) > 1 else f'job {tasks[0]} is unchanged'}: {why}")
    named = getattr(args, "jobs", ())
    failed = [job for job in refused if job in named or job.partition("_")[0] not in changed]
    return REFUSED if failed else 0


def _by_array(jobs: Iterable[str]) -> dict[str, list[str]]:
    """Return the ids by the number of their array; a job that is no task has its own number."""
    found: dict[str, list[str]] = {}
    for job in jobs:
        found.setdefault(job.partition("_")[0], []).append(job)
    return found


def report_nothing(args: argparse.Namespace) -> int:
    if args.json:
        render.print_json({"schema": 1, "jobs": [], "refused": {}})
    return 0


def confirm(question: str, jobs: Sequence[JobView]) -> bool:
    """Ask for confirmation, listing the jobs."""
    named = ", ".join(f"{job.id} ({escape_controls(job.name)})" for job in jobs[:MAX_NAMES])
    more = f" and {len(jobs) - MAX_NAMES:,} more" if len(jobs) > MAX_NAMES else ""
    sys.stderr.write(f"{question} {plural(len(jobs), 'running job')}: {named}{more}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def change(args: argparse.Namespace, verb: str, done: str, statuses: Collection[str] = ()) -> int:
    """Change the named jobs, or all jobs with one of these statuses, and report the result."""
    with connection.connect(args.scheduler) as client:
        return report(args, done, client.change(verb, args.jobs, statuses=sorted(statuses)))


def operate(args: argparse.Namespace, operation: Operation[V], describe: Callable[[V], str], **options: str) -> int:
    """Run an operation on the scheduler, starting one if none runs, and report the result."""
    with connection.connect_or_start(args.scheduler) as client:
        found = client.operate(operation, **options)
    if args.json:
        render.print_json(found)
    else:
        render.print_message(describe(found))
    return 0
