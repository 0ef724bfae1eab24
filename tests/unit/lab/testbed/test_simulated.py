"""The simulation of a cell has the rules of the cell."""

from __future__ import annotations

import pytest

from weft.lab.testbed.matrix import Cell
from weft.lab.testbed.simulated import simulate_cell
from weft.lab.testbed.workload import load


@pytest.mark.parametrize("policy", ["srtf", "fifo"])
def test_a_cell_in_rounds_is_compared_with_a_simulation_in_rounds(policy: str) -> None:
    """A job waits half a round on average, so each long round adds to the average JCT."""
    found = []
    for interval_s in (0.0, 3600.0):
        cell = Cell("n2g8", "demo", policy, interval_s, 600.0, jobs=30)
        found.append(simulate_cell(cell, load(cell)))
    assert [each["model"] for each in found] == ["real", "real"]
    assert found[1]["avg_jct_s"] > found[0]["avg_jct_s"] + 900


def test_a_cell_by_muris_rules_is_compared_with_them() -> None:
    cell = Cell("n2g8", "demo", "srtf", 360.0, 600.0, jobs=30, order="slots", contention="muri")
    assert simulate_cell(cell, load(cell))["model"] == "muri"
