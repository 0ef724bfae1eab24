"""Run a job alone for a few steps, measure its stages, and store them as a profile. Then the job is stopped.

The first ten steps do not count. Stages of PyTorch jobs are found by hooks; other programs name them with
weft.train.stage."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render, tables
from weft.cli.submit import task_flags
from weft.cli.views import profile_table
from weft.errors import InputError, Refused
from weft.text import plural

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.access.wire.messages import JobSpec
    from weft.views.answers.jobs import JobDetailView, StageTimesView
    from weft.views.answers.profiles import StoredProfileView

EXAMPLE: Final = """examples:
  weft profile run --gpus 1 -- python train.py
  weft profile run --gpus 8 --steps 100 --key bert -- torchrun train.py"""

STEPS: Final = 60
WARM_UP_STEPS: Final = 10
MIN_STEPS: Final = 5
"""A job that ends with fewer steps has no profile."""
POLL_S: Final = 0.5
ENDED: Final = ("done", "failed", "cancelled")
RECORDED: Final = {"WEFT_STAGES": "auto", "WEFT_PROFILE": "1"}
"""Variables that make `weft.train` record the stages of a job."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "weft profile run [flags] -- CMD ARGS..."
    task_flags.add_arguments(parser, hidden=("array", "profile", "profile_key"), without=("key",))
    parser.add_argument("--key", metavar="KEY", help="store it under this key (default: params.model, or the command)")
    parser.add_argument("--shared", action="store_true", help="store it for the jobs of all users (admins)")
    parser.add_argument("--steps", metavar="N", default=str(STEPS), help=f"steps to measure ({STEPS})")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only the result")
    flags.add_scheduler(parser)
    parser.add_argument("command", metavar="-- CMD ARGS...", nargs=argparse.REMAINDER, help="the command to run")


def run(args: argparse.Namespace) -> int:
    from weft.cli.submit import submission

    steps, key = _steps(args.steps), args.key or args.profile_key or ""
    if args.array or args.profile:
        flag = "--array" if args.array else "--profile"
        raise InputError(f"{flag}: weft profile run measures one job", hint="leave it out")
    args.command = task_flags.strip_dashes(args.command)
    args.key = args.profile_key = None
    args.quiet = args.quiet or args.json
    prepared = submission.prepare(args)
    _record_stages(prepared.request.jobs[0])
    with connection.connect_or_start(args.scheduler) as client:
        (job,) = prepared.send(client)
        if not args.quiet:
            render.print_message(f"job {job} runs alone until it has done {steps} steps after {WARM_UP_STEPS} others")
        try:
            stages = _measure(client, job, steps)
            stored = _store(client, job, key, stages, steps, shared=args.shared)
        finally:
            _stop(client, job)
    if args.json:
        render.print_json(stored)
    else:
        _print(stored, args.color)
    return 0


def _steps(text: str) -> int:
    if not text.isdecimal() or not MIN_STEPS <= int(text) <= 1_000_000:
        raise InputError(f"--steps: {text[:40]!r} is not a number of steps", hint=f"from {MIN_STEPS} to 1,000,000")
    return int(text)


def _record_stages(spec: JobSpec) -> None:
    """Make a job record its stages, and keep it from being woven: no profile has its key."""
    import secrets

    from weft.access.wire.messages import Variable
    from weft.model.profiles import PROFILING_PREFIX

    spec.profile_key = PROFILING_PREFIX + secrets.token_hex(8)
    spec.env.extend(Variable(name=name, value=value) for name, value in RECORDED.items())


def _measure(client: Client, job: str, steps: int) -> StageTimesView | None:
    """Wait until the job has done enough steps, or has ended. Return its times; None: it reported none."""
    while True:
        (found,) = client.jobs([job]).jobs
        stages = found.progress.stages if found.progress is not None else None
        if found.status in ENDED or (stages is not None and stages.steps >= steps + WARM_UP_STEPS):
            _raise_if_failed(found, stages)
            return stages
        time.sleep(POLL_S)


def _raise_if_failed(job: JobDetailView, stages: StageTimesView | None) -> None:
    if job.status not in ENDED or (stages is not None and stages.steps >= MIN_STEPS):
        return
    how = f"is {job.status}" if job.last_exit_code is None else f"is {job.status} with code {job.last_exit_code}"
    steps = "reported no steps" if stages is None else f"reported {plural(stages.steps, 'step')}"
    raise Refused(
        f"job {job.id} {how} and {steps}: there is no profile\n"
        f"  weft logs {job.id} shows its output; Weft finds the steps of PyTorch optimizers, and those with"
        " weft.train.stage"
    )


def _store(
    client: Client, job: str, key: str, stages: StageTimesView | None, steps: int, *, shared: bool
) -> StoredProfileView:
    from weft.views.answers.profiles import STORE_PROFILE

    stored = client.operate(STORE_PROFILE, job=job, key=key, shared="yes" if shared else "")
    if stages is not None and stages.steps < steps + WARM_UP_STEPS:
        render.print_message(f"the job ended after {plural(stages.steps, 'step')}; fewer were measured than asked for")
    return stored


def _stop(client: Client, job: str) -> None:
    """Stop the job, unless it has ended, and wait for that."""
    (found,) = client.jobs([job]).jobs
    if found.status not in ENDED:
        client.change("cancel", [job])
        client.wait(job)


def _print(stored: StoredProfileView, color: str) -> None:
    profile, stages = stored.profile, stored.stages
    tables.print_table(profile_table.STEP_COLUMNS, profile_table.step_rows(stages), color)
    on = f"{plural(profile.gpus, 'GPU')} {profile.gpu_model}".strip()
    memory = f", {profile.memory_mb} MB on a GPU" if profile.memory_mb else ""
    render.print_message(
        f"{plural(stages.steps, 'step')} on {on}; start {profile.start_s:.1f} s{memory}, {stages.rss_mb} MB of RAM"
    )
    if not stages.separate_net and profile.gpus > 1 and not profile.net_s:
        render.print_message(
            "the network time is part of the gpu stage: its all-reduce overlaps with the backward pass"
        )
    whose = f"jobs of {profile.user}" if profile.user else "jobs of all users"
    render.print_message(f"stored as {profile.key}; {whose} with --profile-key {profile.key} use it")
