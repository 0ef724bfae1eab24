"""Show everything about a job or a service, except its environment. A replica is SERVICE/INDEX."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render, tables
from weft.cli.views import job_table, stages
from weft.errors import NotFound
from weft.text import escape_controls, escape_lines, format_duration, format_time, plural
from weft.views.answers.base import plain

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.views.answers.jobs import JobDetailView

EXAMPLE: Final = """examples:
  weft show 7
  weft show 3-7 --json
  weft show chat
  weft show chat/0"""

ELSEWHERE: Final = frozenset(
    {
        "name", "command", "gpus", "memory", "cpus", "mem", "priority", "time", "retries", "after", "array", "chdir",
        "max_jobs_per_gpu", "share", "comment", "params",
    }
)  # fmt: skip
"""Fields that `_pairs` prints under a label. All other fields are printed under their key."""


ERRORS: Final = ("why", "last exit")
TASK_RUNNER: Final = "workspace/run_task.py"
"""The program that runs a task of a workspace. The task's own command follows after --."""


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs(parser)
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    with connection.connect(args.scheduler) as client:
        try:
            found = client.jobs(args.jobs, arrays=not args.json)
        except NotFound:
            if _show_services(client, args):
                return 0
            raise
    if args.json:
        render.print_json(found)
        return 0
    for at, job in enumerate(found.jobs):
        if at:
            print()
        tables.print_pairs([(label, tables.Cell(_escape(label, value))) for label, value in _pairs(job)], args.color)
    return 0


def _escape(label: str, value: str) -> str:
    """Escape control characters, but keep the lines of an error."""
    return escape_lines(value) if label in ERRORS else escape_controls(value)


def _show_services(client: Client, args: argparse.Namespace) -> bool:
    """Show the services of these names. Return False if one of them is no service."""
    from weft.cli.views.live_services import named_services, print_services

    services = named_services(client, args.jobs)
    if args.json and services:
        render.print_json({"services": [plain(each) for each in services]})
    elif services:
        print_services(services, args.color)
    return bool(services)


def _pairs(job: JobDetailView) -> list[tuple[str, str]]:
    eta = job_table.eta(job.progress)
    progress = " ".join(filter(None, [job_table.progress(job.progress), eta and f"{eta} left"]))
    params = ", ".join(f"{name}={value}" for name, value in job.params.items())
    return [
        ("job", job.id),
        ("name", job.name),
        ("user", job.user),
        ("tasks", "" if job.tasks is None else job_table.format_tasks(job.tasks)),
        ("state", f"{job.status} ({job.state})" if job.tasks is None else ""),
        ("reason", job.reason if job.state in ("PD", "H", "PR") else ""),
        ("exit code" if job.ended else "last exit code", _text(job.last_exit_code)),
        ("failed rank", "" if job.failed_rank is None else f"{job.failed_rank} on {job.failed_node}"),
        ("why" if job.ended else "last exit", f"{job.why}: {job.detail}" if job.detail else job.why),
        ("command", shlex.join(_command(job.command))),
        ("directory", job.chdir),
        ("params", params),
        ("GPUs", _gpus(job)),
        ("CPUs, RAM", ", ".join(_hosts(job))),
        ("on", job.place),
        ("was on", "" if job.place else job.last_place),
        ("also on", _misplaced(job)),
        *_weave(job),
        ("priority", str(job.priority)),
        ("time limit", _duration(job.time_limit_s)),
        ("after", ", ".join(job.after)),
        ("array index", _text(job.array_index) if job.tasks is None else ""),
        *((key, _field(value)) for key, value in job.spec.items() if key not in ELSEWHERE),
        ("submitted", format_time(job.submitted)),
        ("first started", format_time(job.started) if job.started else ""),
        ("ended", format_time(job.ended) if job.ended else ""),
        ("runs", _runs(job)),
        ("GPU time", _duration(job.gpu_seconds or None)),
        ("progress", progress),
        ("metrics", _metrics(job)),
        ("checkpoint", _checkpoint(job)),
        ("log", job.log or ""),
        ("comment", job.comment),
    ]


def _command(command: Sequence[str]) -> Sequence[str]:
    """Return the command without the runner of a workspace's task."""
    if any(word.endswith(TASK_RUNNER) for word in command) and "--" in command:
        return command[list(command).index("--") + 1 :]
    return command


def _field(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name}={each}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _duration(seconds: float | None) -> str:
    return "" if seconds is None else format_duration(seconds)


def _gpus(job: JobDetailView) -> str:
    memory = job.memory_mb
    shown = memory if isinstance(memory, int) else "+".join(map(str, memory))
    parts = [str(job.gpus), f"{shown} MB each" if shown else ""]
    if (job.max_jobs_per_gpu or 1) > 1:
        parts.append(f"up to {job.max_jobs_per_gpu} jobs on one")
    elif job.share:
        request, _, limit = job.share.partition("/")
        parts.append(f"{float(request):.0%} of each, up to {float(limit):.0%}")
    if job.measured_mb:
        parts.append(f"{job.measured_mb} MB measured, or estimated after it ran out of memory")
    return ", ".join(filter(None, parts))


def _weave(job: JobDetailView) -> list[tuple[str, str]]:
    woven = job.weave
    if woven is None:
        return [("unwoven", job.unwoven or "")]
    return [
        ("woven with", ", ".join(woven.partners) or "no job now"),
        ("pace", "" if woven.rate is None else f"{stages.pace(woven.rate)} of its pace alone"),
        ("stages", stages.times(woven.stages) if woven.stages else ""),
        ("waits", stages.waits(woven.stages) if woven.stages else ""),
    ]


def _misplaced(job: JobDetailView) -> str:
    gpus = job.misplaced
    return f"GPU {', '.join(map(str, gpus))}, which it was not given" if gpus else ""


def _hosts(job: JobDetailView) -> list[str]:
    return [plural(job.cpus, "CPU")] * bool(job.cpus) + [f"{job.ram_mb} MB"] * bool(job.ram_mb)


def _runs(job: JobDetailView) -> str:
    if not job.run:
        return ""
    retries = f"of {job.retries} retr{'y' if job.retries == 1 else 'ies'} used"
    parts = [(job.failures, retries), (job.preemptions, "preempted"), (job.requeues, "requeued")]
    return ", ".join([str(job.run), *(f"{count} {what}" for count, what in parts if count)])


def _metrics(job: JobDetailView) -> str:
    found = job.progress.metrics if job.progress is not None else {}
    return ", ".join(f"{name} {'-' if value is None else f'{value:g}'}" for name, value in found.items())


def _checkpoint(job: JobDetailView) -> str:
    found = job.checkpoint
    return f"{found.path} at {format_time(found.at)}" if found else ""
