"""Create a join token, valid once and for a short time, for a user, a worker or an admin.

The token is a secret: send it only to its recipient. The user who runs the scheduler can always create tokens on its
machine; elsewhere, only an admin can."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import auth_target, render

EXAMPLE: Final = """examples:
  weft auth token --user ada
  weft auth token --role worker --expires 10m"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--user", metavar="NAME", help="user that the token is for; owns the jobs submitted with it (default: you)")
    add("--role", choices=("user", "worker", "admin"), default="user", help="role of the token (user)")
    add("--expires", metavar="T", default="1h", help="how long the join token is valid: 30s, 10m, 1h, 1d (1h)")
    auth_target.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.auth import INVITE

    options = {"role": args.role, "expires": args.expires}
    found = auth_target.manage_tokens(args, INVITE, **options, **({"user": args.user} if args.user else {}))
    if args.json:
        render.print_json(found)
        return 0
    print(found.token)
    owner = "" if args.role == "worker" else f" {found.user}"
    render.print_message(
        f"valid once, for {args.expires}; to join as {args.role}{owner}: weft auth join HOST:PORT TOKEN"
    )
    if found.user == "root" and args.role == "user":
        render.print_message("jobs of root run only on nodes whose worker runs all jobs as itself (--run-as worker)")
    if not found.token.rpartition(".")[2]:
        render.print_message(
            "valid only on this machine: the scheduler has no certificate (weft auth init creates one)"
        )
    return 0
