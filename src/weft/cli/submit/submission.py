"""Submit requests from flags and files, and the report of their result."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from weft.access.endpoints.config import Setting, job_defaults, scheduler_address
from weft.access.jobspec.environment import capture
from weft.access.jobspec.fields import BY_KEY, spec_of
from weft.access.jobspec.job_names import default_name
from weft.access.jobspec.readers import Given
from weft.access.jobspec.sbatch import Script, read_script, unmet_needs
from weft.access.jobspec.this_machine import check_outputs
from weft.access.jobspec.workloads import DEMO_S, add_command, demo
from weft.access.wire.convert import get, put
from weft.access.wire.messages import JobSpec, SubmitRequest
from weft.cli import render
from weft.cli.submit.task_flags import flag_name, given_flags
from weft.errors import InputError
from weft.inputs.quantities import parse_array
from weft.text import plural
from weft.views.answers.base import View

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.access.endpoints.addresses import Address
    from weft.access.jobspec.source import Snapshot
    from weft.access.jobspec.taskfile import Written

MAX_NAMES: Final = 5


class SubmittedView(View):
    """A submitted job, or an array with the ids of its tasks."""

    OPTIONAL: ClassVar[Mapping[str, str]] = {"tasks": "tasks"}

    id: str | None
    """None with --dry-run."""
    name: str | None
    tasks: Sequence[str] | None


class Submission(NamedTuple):
    """A request that is ready to send."""

    request: SubmitRequest
    tasks: Sequence[Written] = ()
    """The tasks of the file that the jobs come from, if any."""
    snapshots: Sequence[Snapshot] = ()
    """Source trees to upload, in which the jobs run."""

    def send(self, client: Client) -> list[str]:
        """Submit the jobs and return their ids. Errors name the file and line of the task."""
        for snapshot in self.snapshots if not self.request.dry_run else ():
            client.put(snapshot.packed)
        try:
            return client.submit(self.request)
        except InputError as error:
            raise located(error, self.tasks, self.request.jobs) from None


def located(error: InputError, tasks: Sequence[Written], specs: Sequence[JobSpec]) -> InputError:
    """Return an error about a job with the file and line of its task, if it comes from a file."""
    if not tasks:
        return error
    task = tasks[error.index or 0]
    found = task.located(InputError(error.what, hint=error.hint, key=error.key))
    if error.index is not None and len(tasks) > 1 and (name := specs[error.index].name):
        return InputError(f"{name}: {error.text}", where=found.where, hint=error.hint)
    return found


def prepare(args: argparse.Namespace, config: str | None = None) -> Submission:
    """Build the request for a command, or for the tasks of a file with the flags applied. Contact no scheduler."""
    given = given_flags(args)
    if args.wrap is not None:
        wrap(args, given)
    tasks = _read_tasks(config, given, args.command) if config else []
    here = scheduler_address(args.scheduler) is None
    specs = [_spec_of_task(task, here=here) for task in tasks] if config else [_spec_of_flags(args, given)]
    try:
        return prepare_specs(args, specs, tasks)
    except InputError as error:
        raise (located(error, tasks, specs) if error.index is not None else error) from None


def prepare_specs(args: argparse.Namespace, specs: Sequence[JobSpec], tasks: Sequence[Written] = ()) -> Submission:
    """Build the request for these jobs, which have all of their own flags."""
    _add_defaults(specs, job_defaults())
    for spec in specs:
        spec.chdir = os.path.abspath(spec.chdir) if spec.chdir else ""
    if not args.quiet:
        _report_limits(specs)
    where, here = scheduler_address(args.scheduler), _current_dir()
    if where is None:
        check_outputs(specs, here)
    env = capture(os.environ, everything=args.env_all, elsewhere=where is not None)
    dry_run = getattr(args, "dry_run", False)
    request = SubmitRequest(jobs=specs, key=_key(args.key), env=env, chdir=here, dry_run=dry_run)
    return Submission(request, tasks, _snapshots(request, args, where) if args.snapshot else ())


def _add_defaults(specs: Sequence[JobSpec], defaults: Mapping[str, Setting]) -> None:
    """Give jobs the defaults of the project and the config file for what they do not say. A job without GPUs needs no
    GPU memory."""
    for key, (value, origin) in defaults.items():
        try:
            spec = spec_of({key: value})
        except InputError as error:
            raise error.at(where=origin) from None
        field = BY_KEY[key].message
        for each in specs:
            if not get(each, field) and not (key == "memory" and each.HasField("gpus") and not each.gpus):
                put(each, field, get(spec, field))


def _snapshots(request: SubmitRequest, args: argparse.Namespace, where: Address | None) -> list[Snapshot]:
    from weft.access.jobspec.source import take_snapshots

    if where is None:
        raise InputError(
            "--snapshot needs the scheduler of a cluster", hint="on this machine, jobs run in the folder itself"
        )
    found = take_snapshots(request.jobs, request.chdir)
    for snapshot in found if not args.quiet else ():
        render.print_message(f"snapshot: {plural(snapshot.files, 'file')}, {len(snapshot.packed) / 1e6:.1f} MB packed")
        if snapshot.left_out:
            some = ", ".join(snapshot.left_out[:MAX_NAMES]) + (" ..." if len(snapshot.left_out) > MAX_NAMES else "")
            render.print_message(f"left out (not tracked by git, or a link to elsewhere): {some}")
    return found


def wrap(args: argparse.Namespace, given: dict[str, Given]) -> None:
    """Make the line of --wrap the command, as a batch script would run it."""
    if args.command:
        raise InputError("a command and --wrap are both given", hint="give one or the other")
    args.command = ["sh", "-c", args.wrap]
    given.setdefault("name", "wrap")
    given.setdefault("compat", "batch")


def _spec_of_flags(args: argparse.Namespace, flags: Mapping[str, Given]) -> JobSpec:
    if not args.command and not flags:
        raise InputError(
            "no command to run",
            hint="give it last: weft submit [flags] -- CMD ARGS...; with only flags, such as --gpus 1, a demo runs",
        )
    script = read_script(args.command)
    if script is not None and not args.quiet:
        _report_script(script, flags)
    given = {**script.given, **flags} if script is not None else flags
    command = script.command if script is not None else args.command
    try:
        spec = spec_of({**given, "command": command} if command else given)
        if not command and "params" not in flags:
            _run_demo(spec, quiet=args.quiet)
        if script is not None:
            spec.name = spec.name or default_name([script.path])
            if not args.quiet:
                from weft.node.engine.slurm_variables import ALL, names_for

                has, could_have = names_for(spec, spec.compat), names_for(spec, ALL)
                for note in islice(unmet_needs(script, has, could_have), MAX_NAMES):
                    render.print_message(note)
        add_command(spec, here=scheduler_address(args.scheduler) is None)
        return spec
    except InputError as error:
        where = script.where.get(error.key, "") if script is not None and error.key not in flags else ""
        named = flag_name(error.key) if error.key in given else error.key
        raise InputError(error.what, where=error.where or where, hint=error.hint, key=named) from None


def _run_demo(spec: JobSpec, *, quiet: bool) -> None:
    """Give a job without a command the built-in demo, and report it."""
    duration_s = spec.declared_s if spec.HasField("declared_s") else DEMO_S
    spec.command.extend(demo(duration_s))
    spec.name = spec.name or "demo"
    if not quiet:
        render.print_message(f"no command given: the job runs the built-in demo for {duration_s:g} s")


def _report_script(script: Script, flags: Mapping[str, Given]) -> None:
    if script.left_out:
        render.print_message(f"ignored (no meaning in Weft): {', '.join(script.left_out)}")
    if script.mail and "notify" not in flags:
        render.print_message(
            f"ignored: {', '.join(script.mail)}; --notify sends messages, such as --notify done,failed"
        )
    for key, value in script.given.items():
        if flags.get(key, value) != value and key != "compat":
            render.print_message(f"{flag_name(key)} on the command line overrides {script.where[key]}")


def _read_tasks(path: str, flags: Mapping[str, Given], command: list[str]) -> list[Written]:
    from weft.access.jobspec.taskfile import link_dependencies, read_tasks

    tasks = read_tasks(path)
    if command and len(tasks) > 1:
        what = f"{path} has {len(tasks)} tasks, and one command is given"
        raise InputError(what, hint="put a command into each task of the file, or leave out the command")
    if command:
        flags = {**flags, "command": command}
    link_dependencies(tasks)
    for task in tasks:
        _override(task, flags)
    return tasks


def _spec_of_task(task: Written, *, here: bool) -> JobSpec:
    spec = task.spec()
    try:
        add_command(spec, here=here)
    except InputError as error:
        raise task.located(error) from None
    return spec


def _override(task: Written, flags: Mapping[str, Given]) -> None:
    """Apply the flags to a task of a file, and report where the two differ."""
    for key, value in flags.items():
        old = task.given.get(key)
        if key in ("env", "params", "labels"):
            mine, theirs = _pairs(value), _pairs(old)
            task.given[key] = {**theirs, **mine}
            for name in sorted(name for name in mine if theirs.get(name, mine[name]) != mine[name]):
                render.print_message(f"{flag_name(key)} {name} on the command line overrides {task.where(key)}")
            continue
        if old is not None and old != value:
            name = "the command" if key == "command" else flag_name(key)
            render.print_message(f"{name} on the command line overrides {key} in {task.where(key)}")
        task.given[key] = value


def _pairs(value: Given | None) -> dict[str, str]:
    if isinstance(value, dict):
        return value
    words = [value] if isinstance(value, str) else value or []
    return {name: text for name, _, text in (word.partition("=") for word in words)}


def _key(text: str | None) -> str:
    if text is not None and not (text.isprintable() and 0 < len(text) <= 200):
        raise InputError("--key: expected 1 to 200 printable characters")
    return text or ""


def _current_dir() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise InputError(
            "the current directory no longer exists", hint="change to another directory, or give --chdir"
        ) from None


def _report_limits(specs: Sequence[JobSpec]) -> None:
    """Report durations as they were understood: they are easy to misread."""
    for spec in specs:
        for name, field in (("time limit", "time_limit_s"), ("duration", "declared_s"), ("grace", "grace_s")):
            if spec.HasField(field):
                from weft.text import format_duration

                of = f" of {spec.name}" if len(specs) > 1 and spec.name else ""
                render.print_message(f"{name}{of}: {format_duration(getattr(spec, field))}")


def submitted_views(specs: Sequence[JobSpec], ids: Sequence[str]) -> list[SubmittedView]:
    """Return each job with its id, and for an array the ids of its tasks."""
    found: list[SubmittedView] = []
    at = 0
    for spec in specs:
        count = len(parse_array(spec.array)[0]) if spec.array else 1
        mine, at = list(ids[at : at + count]), at + count
        job = mine[0].partition("_")[0] if mine else None
        found.append(SubmittedView(job, spec.name or default_name(spec.command), mine if spec.array else None))
    return found


def advise(client: Client, specs: Sequence[JobSpec], ids: Sequence[str]) -> list[str]:
    """Return notes about the submitted jobs that may miss their deadlines. Of an array, its last task counts."""
    if not ids or not any(spec.HasField("deadline_at") for spec in specs):
        return []
    from weft.access.client.forecasts import deadline_notes  # few jobs have a deadline

    now = time.time()  # the scheduler has a note already about deadlines that have passed
    views = [
        job
        for spec, job in zip(specs, submitted_views(specs, ids), strict=True)
        if spec.HasField("deadline_at") and spec.deadline_at > now
    ]
    with render.waiting("asking the scheduler whether it makes its deadline"):
        return deadline_notes(client, [job.tasks[-1] if job.tasks else job.id or "" for job in views])


def describe(spec: JobSpec) -> str:
    """Describe a job in one line, for --dry-run."""
    tasks = f", {plural(len(parse_array(spec.array)[0]), 'task')}" if spec.array else ""
    gpus = spec.gpus if spec.HasField("gpus") else len(spec.gpu_ids) or 1
    name = spec.name or default_name(spec.command)
    return f"would submit {name}: {plural(gpus, 'GPU')}{tasks}: {' '.join(spec.command)}"
