"""From flags and files to a request, and what to say about it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.errors import InputError
from weft.ui import figures, render
from weft.ui.task_flags import flag, given_by
from weft.ui.text import plural
from weft.wire.capture import captured
from weft.wire.messages import JobSpec, SubmitRequest
from weft.wire.specs import Given, spec_of
from weft.wire.values import array

if TYPE_CHECKING:
    from weft.wire.taskfile import Written


def request_of(args: argparse.Namespace, config: str | None = None) -> SubmitRequest:
    """Of a command, or of the tasks of a file with the flags put over them."""
    if config and args.command:
        raise InputError("a command and --config at once", hint="put the command into the file, or leave the file out")
    specs = _of_file(config, args) if config else [_of_flags(args)]
    for spec in specs:
        spec.chdir = os.path.abspath(spec.chdir) if spec.chdir else ""
    env = captured(os.environ, everything=args.env_all)
    return SubmitRequest(
        jobs=specs, key=_key(args.key), env=env, chdir=_here(), dry_run=getattr(args, "dry_run", False)
    )


def _of_flags(args: argparse.Namespace) -> JobSpec:
    if not args.command:
        raise InputError("no command to run", hint="weft submit [flags] -- CMD ARGS..., or --config FILE")
    try:
        return spec_of({**given_by(args), "command": args.command})
    except InputError as error:
        key, colon, rest = error.what.partition(":")
        what = f"{flag(key)}:{rest}" if colon and key in given_by(args) else error.what
        raise InputError(what, where=error.where, hint=error.hint) from None


def _of_file(path: str, args: argparse.Namespace) -> list[JobSpec]:
    from weft.wire.taskfile import link, read_tasks

    tasks = read_tasks(path)
    link(tasks)
    flags = given_by(args)
    for task in tasks:
        _put_over(task, flags)
    specs = [task.spec() for task in tasks]
    for task, spec in zip(tasks, specs, strict=True):
        if not spec.command:
            _give_command(task, spec)
    return specs


def _give_command(task: Written, spec: JobSpec) -> None:
    from weft.wire.workloads import command_for

    try:
        spec.command.extend(command_for({each.name: each.value for each in spec.params}))
    except InputError as error:
        raise task.located(error) from None


def _put_over(task: Written, flags: Mapping[str, Given]) -> None:
    """A flag wins over the file, and it is said where the two differ."""
    for key, value in flags.items():
        old = task.given.get(key)
        if key in ("env", "params"):
            task.given[key] = {**_pairs(old), **_pairs(value)}
            lost = sorted(_pairs(old).keys() & _pairs(value).keys())
            if lost:
                render.say(f"{flag(key)} {', '.join(lost)} of the command line wins over {task.lines[key]}")
            continue
        if old is not None and old != value:
            render.say(f"{flag(key)} of the command line wins over {key} in {task.lines[key]}")
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


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise InputError("the current directory is gone", hint="cd to another, or give --chdir") from None


def say_limits(specs: Sequence[JobSpec]) -> None:
    """Durations are easily misread: what was understood is said."""
    for spec in specs:
        if spec.HasField("time_limit_s"):
            of = f" of {spec.name}" if len(specs) > 1 and spec.name else ""
            render.say(f"time limit{of}: {figures.duration(spec.time_limit_s)}")


def submitted(specs: Sequence[JobSpec], ids: Sequence[str]) -> list[dict[str, Any]]:
    """Each job with its id; an array has that of its tasks too."""
    found: list[dict[str, Any]] = []
    at = 0
    for spec in specs:
        count = len(array(spec.array)[0]) if spec.array else 1
        mine, at = list(ids[at : at + count]), at + count
        one = {"id": mine[0].partition("_")[0] if mine else None, "name": spec.name or None}
        found.append({**one, "tasks": mine} if spec.array else one)
    return found


def describe(spec: JobSpec) -> str:
    """In a line, for --dry-run."""
    tasks = f", {plural(len(array(spec.array)[0]), 'task')}" if spec.array else ""
    gpus = spec.gpus if spec.HasField("gpus") else len(spec.gpu_ids) or 1
    name = spec.name or os.path.basename(spec.command[0])
    return f"would submit {name}: {plural(gpus, 'GPU')}{tasks}: {' '.join(spec.command)}"
