"""Makes a join token: good once, for a short while, to become a user, a worker or an admin.

It is a secret: send it to whom it is for, and to nobody else. On the scheduler's machine its owner may always make one;
from elsewhere, an admin."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import auth_target, render

EXAMPLE: Final = """examples:
  weft auth token --user ada
  weft auth token --role worker --expires 10m"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--user", metavar="NAME", help="whose jobs they will be (default: you)")
    add("--role", choices=("user", "worker", "admin"), default="user", help="what it opens (user)")
    add("--expires", metavar="T", default="1h", help="how long it can be used: 30s, 10m, 1h, 1d (1h)")
    auth_target.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from weft.wire.views.auth import INVITE

    options = {"role": args.role, "expires": args.expires}
    found = auth_target.managed(args, INVITE, **options, **({"user": args.user} if args.user else {}))
    if args.json:
        render.print_json(found)
        return 0
    print(found.token)
    of = "" if args.role == "worker" else f" for {found.user}"
    render.say(f"good once, for {args.expires}: weft auth join HOST:PORT TOKEN, as {args.role}{of}")
    if not found.token.rpartition(".")[2]:
        render.say("only on this machine: the scheduler has no certificate (weft auth init)")
    return 0
