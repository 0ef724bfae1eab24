"""Revoke tokens by id. Connections that use one of them are closed within seconds."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import auth_target, render

EXAMPLE: Final = """example:
  weft auth revoke 0a1b2c3d4e5f"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="id from weft auth list")
    auth_target.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.auth import REVOKE

    found = auth_target.manage_tokens(args, REVOKE, ids=" ".join(args.ids))
    if args.json:
        render.print_json(found)
    else:
        for token in found.tokens:
            print(f"revoked {token.id} ({token.role} {token.node or token.user})")
    return 0
