"""The simulation of a cell: the same jobs, nodes and policy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from weft.compare.trial import measure
from weft.inputs.atomic import write_atomic
from weft.sim.simulation import Model, Setting
from weft.testbed.matrix import Cell, weaves, with_order
from weft.testbed.workload import CellWorkload

FILE: Final = "simulated.json"


def model_of(cell: Cell) -> Model:
    """Return the cost model to compare with: Muri's, except for weaves that take turns in another way."""
    if weaves(cell.policy) and (cell.order, cell.contention) != ("slots", "muri"):
        return "real"
    return "muri"


def simulate_cell(cell: Cell, workload: CellWorkload) -> dict[str, Any]:
    found = measure(Setting(workload.nodes, workload.jobs, with_order(cell, cell.policy), model=model_of(cell)))
    return {"model": model_of(cell), **found.values}


def simulated_figures(folder: Path, cell: Cell, workload: CellWorkload) -> Mapping[str, Any]:
    """Return the figures of the simulation of a cell. Simulate once, and keep the figures in the folder of the cell."""
    path = folder / FILE
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        found = simulate_cell(cell, workload)
        write_atomic(path, json.dumps(found, indent=2).encode())
    return found
