"""Show the profiles that are stored under a key: one for each number of GPUs and GPU model."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import connection, flags, render, tables
from weft.cli.views import profile_table
from weft.errors import UnknownName

EXAMPLE: Final = """example:
  weft profile show bert"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", help="as in weft profile list")
    flags.add_scheduler(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.base import replace_fields
    from weft.views.answers.profiles import ProfilesView

    with connection.connect(args.scheduler) as client:
        found = client.list_all(ProfilesView, "profiles")
    chosen = [each for each in found.profiles if each.key == args.key]
    if not chosen:
        keys = list(dict.fromkeys(each.key for each in found.profiles))
        raise UnknownName("profile", args.key, keys, more="weft profile list")
    if args.json:
        render.print_json(replace_fields(found, profiles=chosen))
        return 0
    for at, profile in enumerate(chosen):
        if at:
            print()
        tables.print_pairs([(label, tables.Cell(text)) for label, text in profile_table.pairs(profile)], args.color)
    return 0
