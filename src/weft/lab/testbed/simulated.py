"""The simulation of a cell: the same jobs, nodes and policy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from weft.inputs.atomic import write_atomic
from weft.lab.compare.trial import measure
from weft.lab.testbed.matrix import Cell, with_order
from weft.lab.testbed.scaling import scale_interval
from weft.lab.testbed.workload import CellWorkload
from weft.sim.simulation import Model, Setting

FILE: Final = "simulated.json"


def model_of(cell: Cell) -> Model:
    """Return the cost model to compare with: the realistic one, except where the cell follows Muri's rules."""
    return "muri" if (cell.order, cell.contention) == ("slots", "muri") else "real"


def simulate_cell(cell: Cell, workload: CellWorkload) -> dict[str, Any]:
    """Simulate a cell. By the realistic model it has the rounds of the cell, and loses no work in a stop: the jobs of a
    testbed save then. Muri's rules have no rounds."""
    setting = Setting(workload.nodes, workload.jobs, with_order(cell, cell.policy), model=model_of(cell))
    if setting.model == "real":
        rounds_s = scale_interval(cell.interval_s, cell.speed) * cell.speed
        setting = replace(setting, interval_s=rounds_s or None, checkpoint_interval_s=0.0)
    return {"model": setting.model, **measure(setting).values}


def simulated_figures(folder: Path, cell: Cell, workload: CellWorkload) -> Mapping[str, Any]:
    """Return the figures of the simulation of a cell. Simulate once, and keep the figures in the folder of the cell."""
    path = folder / FILE
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        found = simulate_cell(cell, workload)
        write_atomic(path, json.dumps(found, indent=2).encode())
    return found
