"""List the tokens of a scheduler: user, role and expiry, without the secrets."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli import auth_target, render, tables
from weft.cli.tables import Cell, Column

if TYPE_CHECKING:
    from weft.views.answers.auth import TokenView

EXAMPLE: Final = """example:
  weft auth list --json"""

COLUMNS: Final = (
    Column("ID"), Column("KIND"), Column("ROLE"), Column("USER"), Column("NODE"), Column("STATE"), Column("MADE"),
    Column("EXPIRES"), Column("BY"),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    auth_target.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from weft.views.answers.auth import LIST

    found = auth_target.manage_tokens(args, LIST)
    if args.json:
        render.print_json(found)
    else:
        tables.print_table(COLUMNS, [_row(token) for token in found.tokens], args.color)
    return 0


def _row(token: TokenView) -> list[Cell]:
    colour = "green" if token.state == "good" else "red" if token.state == "revoked" else ""
    times = [(at or "-").partition(".")[0] for at in (token.made_at, token.expires_at)]
    texts = [text or "-" for text in (token.id, token.kind, token.role, token.user, token.node)]
    return [*map(Cell, texts), Cell(token.state, colour), *map(Cell, times), Cell(token.made_by)]
