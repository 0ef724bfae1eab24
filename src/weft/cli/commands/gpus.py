"""List the GPUs: model, reserved and used memory, jobs, and why a GPU is blocked.

Of runs that share a GPU it lists their shares, what enforces them, and what depends on their programs."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Final

from weft.cli import connection, flags, render, tables
from weft.cli.tables import Cell, Column
from weft.cli.views import node_table

if TYPE_CHECKING:
    from weft.views.answers.nodes import BlockView, GpusView, GpuView, ShareView

EXAMPLE: Final = """example:
  weft gpus --json"""

COLUMNS: Final = (
    Column("NODE"), Column("GPU", right=True), Column("MODEL", max_width=30), Column("MEMORY", right=True),
    Column("RESERVED", right=True), Column("USED", right=True), Column("UTIL", right=True), Column("ST"),
    Column("JOBS(REASON)"),
)  # fmt: skip


SHARE_COLUMNS: Final = (
    Column("NODE"), Column("GPU", right=True), Column("JOB"), Column("KIND"), Column("SHARE"),
    Column("RATE", right=True), Column("ENFORCED"), Column("ADVISORY"),
)  # fmt: skip

configure = flags.add_common


def run(args: argparse.Namespace) -> int:
    client = connection.connect_if_running(args.scheduler)
    if client is None:
        found = _gpus_of_this_machine()
    else:
        with client:
            found = client.gpus()
    if args.json:
        render.print_json(found)
        return 0
    tables.print_table(COLUMNS, [_row(gpu) for gpu in node_table.sort_by_name(found.gpus)], args.color)
    shares = [_share_row(gpu, share) for gpu in node_table.sort_by_name(found.gpus) for share in gpu.shares or ()]
    if shares:
        tables.print_table(SHARE_COLUMNS, shares, args.color)
    if client is None:
        render.print_message(f"{connection.absence_reason(args.scheduler)}; these are the GPUs of this machine")
    if not found.gpus:
        render.print_message("no GPUs; weft up --gpus 0,1 declares some, weft doctor shows more")
    return 0


def _gpus_of_this_machine() -> GpusView:
    """Return the GPUs that a scheduler started here would have, all of them idle."""
    from weft.access.endpoints.paths import user_paths
    from weft.access.server.settings import load
    from weft.node.engine.gpu.this_machine import discover_this_machine
    from weft.views.answers.nodes import GpusView, GpuView
    from weft.views.from_state.timestamps import iso

    settings = load(user_paths().state)
    machine, _ = discover_this_machine(settings.gpus, settings.models, settings.memories)
    devices = zip(machine.devices, machine.node.gpus, strict=True)
    return GpusView(
        now=iso(time.time()),
        gpus=[GpuView(machine.node.id, device.index, gpu.model, gpu.memory_mb) for device, gpu in devices],
    )


def _row(gpu: GpuView) -> list[Cell]:
    why = [_reason(each) for each in gpu.blocked]
    reasons = list(dict.fromkeys(why))  # a GPU may be drained, and its node as well
    reasons += [f"({each} uses it without an allocation)" for each in gpu.misplaced or ()]
    blocked = node_table.is_blocked(gpu)
    state, colour = ("BLOCKED", "red") if blocked else ("BUSY", "green") if gpu.jobs else ("IDLE", "")
    return [
        Cell(gpu.node), Cell(str(gpu.gpu)), Cell(gpu.model or "-"), Cell(f"{gpu.memory_mb} MB"),
        Cell(f"{gpu.reserved_mb} MB"), Cell(_figure(gpu.used_mb, " MB")), Cell(_figure(gpu.utilisation, "%")),
        Cell(state, colour), Cell(" ".join([",".join(gpu.jobs), *["woven"] * bool(gpu.weave), *reasons]).strip()),
    ]  # fmt: skip


def _share_row(gpu: GpuView, share: ShareView) -> list[Cell]:
    is_training = share.kind == "training"
    return [
        Cell(gpu.node), Cell(str(gpu.gpu)), Cell(share.job), Cell(share.kind),
        Cell(f"{share.request:g}/{share.limit:g}"), Cell(f"{share.rate:.2f}" if is_training else "-"),
        Cell(", ".join(share.enforced) or "nothing"), Cell(", ".join(share.advisory) or "-"),
    ]  # fmt: skip


def _reason(block: BlockView) -> str:
    memory = "" if block.memory_mb is None else f" {block.memory_mb} MB"
    return f"({block.reason}{memory}{': ' if block.detail else ''}{block.detail})"


def _figure(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value}{unit}"
