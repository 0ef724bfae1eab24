"""Limit how many jobs of a group run at once. Jobs that run already continue."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import flags
from weft.cli.text import plural
from weft.cli.views import change_report
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.wire.views.groups import GroupSettingsView

EXAMPLE: Final = """examples:
  weft group set sweep jobs=4
  weft group set sweep jobs=none"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="its name; of a workspace, the name of its folder")
    parser.add_argument("setting", metavar="jobs=N", help="how many of its jobs may run at once; none: any number")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.wire.views.groups import SET_GROUP

    key, equals, value = args.setting.partition("=")
    if key != "jobs" or not equals:
        raise InputError(f"{args.setting[:80]!r} is not jobs=N", hint="such as jobs=4, or jobs=none")
    return change_report.operate(args, SET_GROUP, _describe, group=args.group, jobs=value)


def _describe(found: GroupSettingsView) -> str:
    from weft.model.groups import group_label

    name = group_label(found.group)
    if found.jobs is None:
        return f"group {name} has no limit"
    return f"at most {plural(found.jobs, 'job')} of group {name} at a time"
