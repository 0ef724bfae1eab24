"""The workloads of the benchmarks: the public traces if available, else generated traces of the same size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft.sim.clusters.feasible_jobs import split_feasible
from weft.sim.clusters.reader import read_cluster
from weft.sim.simulation import Model, Outcome, Setting, simulate
from weft.sim.traces.generator import generate
from weft.sim.traces.trace import Trace, TraceJob, read_trace

REFERENCE = Path(__file__).resolve().parents[2] / "shared" / "reference"
PHILLY_JOBS = 82_247


def muri_trace(name: str) -> Trace:
    path = REFERENCE / "muri" / f"{name}.csv"
    return read_trace(path) if path.exists() else generate(992, seed=3, gpus_in_cluster=64, load=1.2)


def philly() -> Trace:
    path = REFERENCE / "traces" / "philly.csv.gz"
    return read_trace(path) if path.exists() else generate(PHILLY_JOBS, seed=1, gpus_in_cluster=448, load=0.83)


def run(jobs: Sequence[TraceJob], cluster: str, policy: str, model: Model = "real") -> Outcome:
    nodes = read_cluster(cluster)
    feasible, _ = split_feasible(jobs, nodes)
    return simulate(Setting(nodes, feasible, policy, model=model))
