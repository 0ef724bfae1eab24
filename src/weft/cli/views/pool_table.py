"""Pools and their allocations as tables and lines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from weft.cli.tables import Cell, Column
from weft.text import format_duration, format_time

if TYPE_CHECKING:
    from weft.views.answers.pools import AllocationView, PoolView

COLUMNS: Final = (
    Column("POOL", max_width=30), Column("PROVIDER"), Column("STATE"), Column("NODES", right=True),
    Column("WAITING", right=True), Column("WANTED", right=True), Column("MAX", right=True), Column("GPUS", right=True),
    Column("MODEL"), Column("TIME", right=True), Column("REASON", max_width=60),
)  # fmt: skip
ALLOCATIONS: Final = (
    Column("NODE"), Column("ID"), Column("STATE"), Column("JOBS", right=True), Column("IDLE", right=True),
    Column("REQUESTED"), Column("ENDS"), Column("REASON", max_width=60),
)  # fmt: skip
COLORS: Final = {"open": "", "paused": "yellow", "removing": "yellow", "unreachable": "red"}


def row(pool: PoolView) -> list[Cell]:
    reason = f"{pool.why}: {pool.detail}" if pool.why else pool.detail
    return [
        Cell(pool.name), Cell(pool.provider), Cell(pool.state, COLORS.get(pool.state, "")), Cell(str(pool.nodes)),
        Cell(str(pool.waiting)), Cell(str(pool.wanted)), Cell(str(pool.max_nodes)), Cell(str(pool.gpus)),
        Cell(pool.model or "-"), Cell(format_duration(pool.time_s)), Cell(reason.partition("\n")[0]),
    ]  # fmt: skip


def allocation(each: AllocationView) -> list[Cell]:
    idle = "-" if each.idle_s is None else format_duration(each.idle_s)
    return [
        Cell(each.node), Cell(each.id or "-"), Cell(each.phase), Cell(str(each.jobs)), Cell(idle),
        Cell(format_time(each.requested)), Cell(format_time(each.ends) if each.ends else "-"), Cell(each.reason),
    ]  # fmt: skip


def lines(pool: PoolView) -> Iterator[str]:
    """Yield the settings of a pool, and its last failure."""
    yield f"pool {pool.name} is {pool.state}" + (f" ({pool.why})" if pool.why else "")
    if pool.detail:
        yield f"  {pool.detail.partition(chr(10))[0]}"
    gpus = f"{pool.gpus} GPUs of {pool.memory_mb:,} MB" + (f", {pool.model}" if pool.model else "")
    yield f"  provider: {pool.provider}"
    yield (
        f"  node: {gpus}" + (f", {pool.cpus} CPUs" if pool.cpus else "") + (f", {pool.ram_mb:,} MB" * bool(pool.ram_mb))
    )
    now = f"{pool.nodes} joined, {pool.waiting} waiting, {pool.wanted} more wanted"
    yield f"  nodes: {now}; from {pool.min_nodes} to {pool.max_nodes}"
    yield f"  time: {format_duration(pool.time_s)}, idle: {format_duration(pool.idle_s)}, backlog: {pool.backlog}"
    if pool.options:
        yield f"  options: {shlex.join(pool.options)}"
    for key, value in pool.settings.items():
        yield f"  {key}: {value}"
    if pool.folder:
        yield f"  folder: {pool.folder}"
    if pool.failure and pool.failures:
        yield f"  failures in a row: {pool.failures}; the last one:"
        yield from (f"    {line}" for line in pool.failure.splitlines())
