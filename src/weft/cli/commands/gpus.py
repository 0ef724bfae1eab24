"""Lists the GPUs: what each is, how much of its memory is reserved, who is on it, and what keeps it from being used."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from weft.cli import connection, flags, listing, render
from weft.cli.listing import Cell, Column
from weft.cli.views import node_table
from weft.errors import Unreachable

EXAMPLE: Final = """example:
  weft gpus --json"""

COLUMNS: Final = (
    Column("NODE"), Column("GPU", right=True), Column("MODEL", most=30), Column("MEMORY", right=True),
    Column("RESERVED", right=True), Column("USED", right=True), Column("UTIL", right=True), Column("ST"),
    Column("JOBS(REASON)"),
)  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    flags.add_scheduler(parser)
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    client = connection.look(args.scheduler)
    if client is None:
        raise Unreachable(f"{connection.absence(args.scheduler)}\n  weft up starts one")
    with client:
        found = client.query("gpus")
    if args.json:
        render.print_json(found)
        return 0
    listing.print_table(COLUMNS, [_row(gpu) for gpu in node_table.in_order(found["gpus"])], args.color)
    if not found["gpus"]:
        render.say("there are none; weft up --gpus 0,1 declares some, weft doctor tells more")
    return 0


def _row(gpu: Mapping[str, Any]) -> list[Cell]:
    why = [f"({each['reason']}{': ' if each['detail'] else ''}{each['detail']})" for each in gpu["blocked"]]
    reasons = list(dict.fromkeys(why))  # a GPU may be drained, and its node as well
    reasons += [f"({each} is on it, but was not given it)" for each in gpu.get("misplaced", ())]
    state, colour = ("BLOCKED", "red") if gpu["blocked"] else ("BUSY", "green") if gpu["jobs"] else ("IDLE", "")
    return [
        Cell(gpu["node"]), Cell(str(gpu["gpu"])), Cell(gpu["model"] or "-"), Cell(f"{gpu['memory_mb']} MB"),
        Cell(f"{gpu['reserved_mb']} MB"), Cell(_figure(gpu, "used_mb", " MB")), Cell(_figure(gpu, "utilisation", "%")),
        Cell(state, colour), Cell(" ".join([",".join(gpu["jobs"]), *reasons]).strip()),
    ]  # fmt: skip


def _figure(gpu: Mapping[str, Any], key: str, unit: str) -> str:
    return "-" if gpu.get(key) is None else f"{gpu[key]}{unit}"
