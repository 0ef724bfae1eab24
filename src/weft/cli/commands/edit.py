"""Open a waiting job as YAML in your editor, and change it to what you save. It keeps its id."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any, Final

from weft.cli import connection, flags, render
from weft.cli.views import change_report
from weft.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.access.wire.messages import ChangeReply, JobSpec
    from weft.views.answers.jobs import JobDetailView

EXAMPLE: Final = """The editor is $VISUAL, $EDITOR or vi. Leave the file as it is to change nothing.
The variables of the job are not shown, and stay; env: adds to them.

examples:
  weft edit 7
  EDITOR=nano weft edit train"""
FIXED: Final = frozenset({"array", "snapshot", "stdin", "terminal"})
"""Fields that an edit cannot change."""
HEADER: Final = "# Save and quit to change job {}; quit without saving to leave it as it is.\n"


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_jobs(parser, several=False)
    flags.add_common(parser)


def run(args: argparse.Namespace) -> int:
    with connection.connect(args.scheduler) as client:
        (job, *others) = client.jobs([args.job]).jobs
        if others:
            raise InputError(
                f"{args.job!r} names {len(others) + 1} jobs", hint="name one by its id; weft queue lists them"
            )
        reply = _edit_until_accepted(job, lambda spec: client.change("edit", [job.id], spec=spec))
    if reply is None:
        render.print_message(f"job {job.id} is unchanged")
        return change_report.report_nothing(args)
    return change_report.report(args, "changed", reply)


def _edit_until_accepted(job: JobDetailView, change: Callable[[JobSpec], ChangeReply]) -> ChangeReply | None:
    """Change the job to what the user saves; after a mistake, open the editor again. Return None if nothing changed."""
    text = before = HEADER.format(job.id) + _yaml({key: value for key, value in job.spec.items() if key not in FIXED})
    with tempfile.TemporaryDirectory(prefix="weft-edit-") as folder:
        path = os.path.join(folder, f"job-{job.id}.yml")
        while True:
            with open(path, "w") as file:
                file.write(text)
            _edit(path)
            found = _saved(path)
            if found in (before, text):
                return None
            try:
                return change(_spec(path))
            except InputError as error:
                render.print_message(f"{error}\n  the editor opens again; leave the file as it is to give up")
                text = "".join(f"# {line}\n" for line in str(error).splitlines()) + _without_errors(found)


def _yaml(fields: dict[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=120)


def _edit(path: str) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        code = subprocess.call([*shlex.split(editor), path])
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot start the editor {editor!r}: {error}", hint="set EDITOR, for example EDITOR=nano"
        ) from None
    if code:
        raise InputError(f"the editor {editor!r} ended with exit code {code}", hint="nothing was changed")


def _saved(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError as error:
        raise InputError(f"the editor left no file: {error.strerror}", hint="nothing was changed") from None
    except UnicodeDecodeError:
        raise InputError("the editor saved a file that is not UTF-8 text", hint="nothing was changed") from None


def _spec(path: str) -> JobSpec:
    from weft.access.jobspec.taskfile import read_tasks

    tasks = read_tasks(path)
    if len(tasks) != 1:
        raise InputError(f"{len(tasks)} tasks in the file", hint="leave one: the job that you edit")
    return tasks[0].spec()


def _without_errors(text: str) -> str:
    """Return the text without the comments at its beginning, which hold an earlier error."""
    lines = text.splitlines(keepends=True)
    while lines and lines[0].startswith("#"):
        del lines[0]
    return "".join(lines)
