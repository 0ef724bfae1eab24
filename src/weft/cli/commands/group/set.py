"""Limit how many jobs of a group run at once, or choose when the whole group leads to a message."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import flags
from weft.cli.views import change_report
from weft.errors import InputError
from weft.text import plural

if TYPE_CHECKING:
    from weft.views.answers.groups import GroupSettingsView

EXAMPLE: Final = """Jobs that run already continue. One message is sent when the last unfinished job of the group ends.

examples:
  weft group set sweep jobs=4
  weft group set sweep jobs=none
  weft group set sweep notify=done,failed
  weft group set sweep notify=done@team"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="its name; of a workspace, the name of its folder")
    parser.add_argument(
        "setting", metavar="jobs=N|notify=EVENTS", help="how many of its jobs may run at once; events that lead to a "
        "message: done, failed, cancelled; none: no limit, no message",
    )  # fmt: skip
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.groups import SET_GROUP

    key, equals, value = args.setting.partition("=")
    if key not in ("jobs", "notify") or not equals:
        hint = "such as jobs=4, jobs=none or notify=done,failed"
        raise InputError(f"{args.setting[:80]!r} is not jobs=N or notify=EVENTS", hint=hint)
    describe = _describe_limit if key == "jobs" else _describe_notify
    return change_report.operate(args, SET_GROUP, describe, group=args.group, **{key: value})


def _describe_limit(found: GroupSettingsView) -> str:
    from weft.model.groups import group_label

    name = group_label(found.group)
    if found.jobs is None:
        return f"group {name} has no limit"
    return f"at most {plural(found.jobs, 'job')} of group {name} at a time"


def _describe_notify(found: GroupSettingsView) -> str:
    from weft.model.groups import group_label

    name = group_label(found.group)
    return f"group {name} leads to " + (f"a message at its end: {found.notify}" if found.notify else "no messages")
