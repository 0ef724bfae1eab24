"""Autoscalers on the series of Dilu's repository: late requests and replica-seconds against the lazy rule."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from weft.lab.study.scaling import ScalerFigures, compare_scalers, load_scalers
from weft.sim.serving.arrivals import Arrivals, from_rps, read_llm_trace, read_rps
from weft.sim.serving.grid import read_grid
from weft.sim.serving.service import SimulatedService

REFERENCE = (
    Path(os.environ.get("WEFT_REFERENCE", Path(__file__).resolve().parents[5] / "shared" / "reference")) / "dilu"
)
SEEDS = (1, 2, 3, 4)


class Bar(NamedTuple):
    """The most that `deficit` may need, relative to `lazy`."""

    late_x: float
    replica_s_x: float
    late: float = 0.0
    """This part of the requests may be late in any case."""


BARS = {
    ("bursty", 10): Bar(1.0, 1.02),
    ("periodic", 10): Bar(1.0, 1.02),
    ("bursty", 25): Bar(1.0, 1.02),
    ("periodic", 25): Bar(0.5, 1.05),
    ("bursty", 20): Bar(1.0, 0.82, late=0.0005),
}
ROWS = [pytest.param(*row, marks=[pytest.mark.soak] if row[1] > 10 else []) for row in BARS]


def reference(name: str) -> str:
    path = REFERENCE / name
    if not path.exists():
        pytest.skip(f"{name} of Dilu's repository is not here")
    return str(path)


def compare(service: SimulatedService, other: str, workloads: list[Arrivals]) -> tuple[ScalerFigures, ScalerFigures]:
    lazy, found = compare_scalers(service, load_scalers(["lazy", other]), workloads)
    return lazy, found


def roberta(*, burst: bool = False) -> SimulatedService:
    grid = read_grid(reference("a100_roberta_large.csv"))
    return SimulatedService(grid=grid, profiled=grid.capacity(8, 0.3), burst=burst)


def workloads_of(trace: str, times: int) -> list[Arrivals]:
    rates = read_rps(reference(f"rps_{trace}.txt"))
    return [from_rps(rates, times, seed) for seed in SEEDS]


@pytest.mark.parametrize(("trace", "times"), ROWS)
def test_deficit_is_late_less_often_than_lazy_for_the_same_replicas(trace: str, times: int) -> None:
    bar = BARS[trace, times]
    lazy, deficit = compare(roberta(), "deficit", workloads_of(trace, times))
    assert deficit.mean("violations") <= max(bar.late_x * lazy.mean("violations"), bar.late)
    assert deficit.mean("replica_s") <= bar.replica_s_x * lazy.mean("replica_s")


@pytest.mark.soak
@pytest.mark.parametrize("trace", ["bursty", "periodic"])
@pytest.mark.parametrize("times", [10, 25])
def test_with_burst_to_the_limit_hardly_a_request_is_late(trace: str, times: int) -> None:
    _, deficit = compare(roberta(burst=True), "deficit", workloads_of(trace, times))
    assert deficit.mean("violations") <= 0.005


@pytest.mark.soak
def test_concurrency_serves_the_conversation_trace() -> None:
    work = read_llm_trace(reference("azure_llm_conv.csv.gz"))
    tokens = work.tokens or [1]
    usual = SimulatedService()
    mean_s = usual.token_s * sum(max(each, 1) for each in tokens) / len(tokens)
    service = SimulatedService(slo_s=1.0, cold_start_s=30.0, throughput=usual.slots / mean_s)
    lazy, concurrency = compare(service, "concurrency", [work])
    assert lazy.mean("violations") > 0.5
    assert concurrency.mean("violations") <= 0.1
    assert concurrency.mean("replica_s") <= 1.3 * lazy.mean("replica_s")
