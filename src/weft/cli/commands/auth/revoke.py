"""Makes tokens void, by their ids. Whoever is inside with one of them is shown out within seconds."""

from __future__ import annotations

import argparse
from typing import Final

from weft.cli import auth_target, render

EXAMPLE: Final = """example:
  weft auth revoke 0a1b2c3d4e5f"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="as weft auth list shows them")
    auth_target.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from weft.wire.views.auth import REVOKE

    found = auth_target.managed(args, REVOKE, ids=" ".join(args.ids))
    if args.json:
        render.print_json(found)
    else:
        for token in found.tokens:
            print(f"revoked {token.id} ({token.role} {token.node or token.user})")
    return 0
