"""The tables of simulated services: their requests, latencies and replicas, and the GPUs that they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from weft.cli.tables import Cell, Column
from weft.lab.report.page import Cell as PageCell
from weft.lab.report.page import Table
from weft.text import format_duration

SERVICE_COLUMNS: Final = (
    Column("service", key="service"), Column("requests", key="requests"), Column("late", key="violations"),
    Column("p50", key="p50_s"), Column("p95", key="p95_s"), Column("p99", key="p99_s"),
    Column("replica time", key="replica_s"), Column("most replicas", key="peak_replicas"),
    Column("cold starts", key="cold_starts"), Column("resized", key="scale_actions"),
)  # fmt: skip
OCCUPANCY_COLUMNS: Final = (
    Column("most GPUs", key="peak_gpus"), Column("mean GPUs", key="mean_gpus"),
    Column("compute unused", key="mean_compute_fragmentation"),
    Column("memory unused", key="mean_memory_fragmentation"), Column("moved", key="moves"),
)  # fmt: skip
POLICY: Final = Column("policy", key="policy")
CAPTION: Final = "Services"
GPUS_CAPTION: Final = "GPUs in use, by training and services"

Tabled = tuple[str, list[Column], list[list[Cell]]]


def tables_of(trials: Iterable[tuple[str, Mapping[str, Any]]], *, with_policy: bool) -> list[Tabled]:
    """Return the tables of services and of GPUs in use: for each policy its figures. Empty without services."""
    services: list[list[Cell]] = []
    occupancy: list[list[Cell]] = []
    for policy, values in trials:
        head = [Cell(policy, raw=policy)] if with_policy else []
        for name, found in values.get("services", {}).items():
            services.append([*head, Cell(name, raw=name), *(_cell(c.key, found[c.key]) for c in SERVICE_COLUMNS[1:])])
        if (gpus := values.get("occupancy")) is not None:
            occupancy.append([*head, *(_cell(column.key, gpus[column.key]) for column in OCCUPANCY_COLUMNS)])
    if not services:
        return []
    first = [POLICY] if with_policy else []
    return [
        (CAPTION, [*first, *SERVICE_COLUMNS], services),
        (GPUS_CAPTION, [*first, *OCCUPANCY_COLUMNS], occupancy),
    ]


def html_tables_of(tabled: Sequence[Tabled]) -> list[Table]:
    return [
        Table(caption, [column.label for column in columns], [[PageCell(cell.text) for cell in row] for row in rows])
        for caption, columns, rows in tabled
    ]


def _cell(key: str, value: float | None) -> Cell:
    if value is None:
        return Cell("-", raw=None)
    if key in ("violations", "mean_compute_fragmentation", "mean_memory_fragmentation"):
        return Cell(f"{value:.2%}", raw=round(value, 6))
    if key in ("p50_s", "p95_s", "p99_s"):
        return Cell(f"{1000 * value:,.0f} ms", raw=round(value, 6))
    if key == "replica_s":
        return Cell(format_duration(value), raw=round(value, 1))
    return Cell(f"{value:,.1f}" if isinstance(value, float) else f"{value:,}", raw=value)
