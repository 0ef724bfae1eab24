"""Lists the tokens that a scheduler knows: whose they are, what they open, until when. Not the tokens themselves."""

from __future__ import annotations

import argparse
from typing import Any, Final

from weft.cli import auth_target, listing, render
from weft.cli.listing import Cell, Column

EXAMPLE: Final = """example:
  weft auth list --json"""

COLUMNS: Final = (
    Column("ID"), Column("KIND"), Column("ROLE"), Column("USER"), Column("NODE"), Column("STATE"), Column("MADE"),
    Column("EXPIRES"), Column("BY"),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    auth_target.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    found = auth_target.managed(args, "list")
    if args.json:
        render.print_json(found)
    else:
        listing.print_table(COLUMNS, [_row(token) for token in found["tokens"]], args.color)
    return 0


def _row(token: dict[str, Any]) -> list[Cell]:
    colour = "green" if token["state"] == "good" else "red" if token["state"] == "revoked" else ""
    times = [(token[key] or "-").partition(".")[0] for key in ("made_at", "expires_at")]
    texts = [token[key] or "-" for key in ("id", "kind", "role", "user", "node")]
    return [*map(Cell, texts), Cell(token["state"], colour), *map(Cell, times), Cell(token["made_by"])]
