"""The comparison of finished cells with the simulator and with published figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from weft.lab.testbed.matrix import Cell, weaves
from weft.lab.testbed.published import BASELINES, SOURCE, Published, published_figures
from weft.lab.testbed.simulated import simulated_figures
from weft.lab.testbed.store import Store
from weft.lab.testbed.workload import load

FIGURES: Final = {"avg_jct_s": "average JCT", "makespan_s": "makespan", "p99_jct_s": "99th percentile JCT"}
RATIOS: Final = {"avg_jct_s": "jct_ratio", "makespan_s": "makespan_ratio"}
"""Figures whose published ratio to Muri is known."""


class Setup(NamedTuple):
    """The properties that comparable cells share."""

    cluster: str
    trace: str
    jobs: int
    interval_s: float

    @property
    def title(self) -> str:
        return f"{self.trace}, {self.jobs:,} jobs, on {self.cluster}, planned every {self.interval_s:g} s"


@dataclass(frozen=True)
class Row:
    """A finished cell, and what was expected of it."""

    cell: Cell
    result: Mapping[str, Any]
    simulated: Mapping[str, Any]
    published: Published | None

    @property
    def setup(self) -> Setup:
        jobs = int(self.result["figures"]["jobs"])
        return Setup(self.cell.cluster, self.result["trace"], jobs, self.cell.interval_s)

    @property
    def group(self) -> str:
        """The group of the cell's jobs in its journal."""
        return str(self.result.get("group", "testbed"))

    @property
    def label(self) -> str:
        """The policy; for a policy that weaves, also how."""
        if not weaves(self.cell.policy):
            return self.cell.policy
        contention = ", contention" if self.cell.contention == "muri" else ""
        return f"{self.cell.policy} ({self.cell.order}{contention})"

    def live(self, key: str) -> float | None:
        value: float | None = self.result["figures"][key]
        return value

    def against_simulated(self, key: str) -> float | None:
        """Return by which part the live figure exceeds the simulated one."""
        return _excess(self.live(key), self.simulated[key])

    def against_published(self, key: str) -> float | None:
        return None if self.published is None else _excess(self.live(key), getattr(self.published, key))


class Ratio(NamedTuple):
    """A figure relative to that of Muri, live and published."""

    row: Row
    baseline: Row
    key: str
    live: float
    published: float

    @property
    def excess(self) -> float:
        return self.live / self.published - 1


def read_rows(store: Store) -> list[Row]:
    """Return the finished cells in the order of setups. Simulate the ones that were not simulated yet."""
    rows = []
    for cell, result in store.results():
        workload = load(cell)
        published = published_figures(workload.jobs, workload.gpus, cell.policy)
        rows.append(Row(cell, result, simulated_figures(store.folder(cell), cell, workload), published))
    order = {policy: at for at, policy in enumerate(BASELINES)}
    return sorted(rows, key=lambda row: (row.setup, order.get(row.cell.policy, len(order)), row.label))


def by_setup(rows: Sequence[Row]) -> dict[Setup, list[Row]]:
    found: dict[Setup, list[Row]] = {}
    for row in rows:
        found.setdefault(row.setup, []).append(row)
    return found


def published_ratios(rows: Sequence[Row]) -> Iterator[Ratio]:
    """Yield the ratios to Muri of the rows of one setup, for which published ones exist."""
    for row in rows:
        wanted = BASELINES.get(row.cell.policy)
        base = next((each for each in rows if each.cell.policy == wanted and each is not row), None)
        if base is None or row.published is None:
            continue
        for key, name in RATIOS.items():
            mine, other = row.live(key), base.live(key)
            if mine and other:
                yield Ratio(row, base, key, mine / other, getattr(row.published, name))


def as_json(rows: Sequence[Row]) -> dict[str, Any]:
    """Return everything as one JSON object."""
    setups = [
        {
            **setup._asdict(),
            "cells": [_cell_json(row) for row in of_setup],
            "ratios": [
                {"policy": each.row.label, "baseline": each.baseline.label, "figure": each.key, "live": each.live,
                 "published": each.published, "excess": each.excess}
                for each in published_ratios(of_setup)
            ],
        }
        for setup, of_setup in by_setup(rows).items()
    ]  # fmt: skip
    return {"schema": 1, "kind": "testbed", "gpus": "emulated", "published": SOURCE, "setups": setups}


def _cell_json(row: Row) -> dict[str, Any]:
    known = {key: value for key, value in row.result.items() if key not in ("schema", "cell")}
    return {
        **asdict(row.cell), **known, "simulated": {key: row.simulated[key] for key in (*FIGURES, "model")},
        "published": None if row.published is None else row.published._asdict(),
        "against_simulated": {key: row.against_simulated(key) for key in FIGURES},
        "against_published": {key: row.against_published(key) for key in FIGURES},
    }  # fmt: skip


def _excess(value: float | None, other: float | None) -> float | None:
    return value / other - 1 if value is not None and other else None
