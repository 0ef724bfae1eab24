"""The scaling study: the requests of one service under several autoscalers, side by side, over several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from weft.errors import InputError
from weft.scheduling.plugins import registry
from weft.scheduling.scaling.port import Autoscaler
from weft.sim.serving.arrivals import Arrivals
from weft.sim.serving.run import ServiceFigures, serve
from weft.sim.serving.service import SimulatedService

RATE_SCALERS: Final = ("lazy", "kpa", "deficit")
STREAM_SCALERS: Final = ("lazy", "kpa:metric=concurrency", "concurrency")
FIGURES: Final = ("violations", "replica_s", "p50_s", "p95_s", "p99_s", "cold_starts", "scale_actions", "peak_replicas")


@dataclass
class ScalerFigures:
    """The figures of one autoscaler, over all seeds."""

    scaler: str
    runs: list[ServiceFigures]

    def mean(self, figure: str) -> float:
        return fmean(getattr(run, figure) for run in self.runs)


def load_scalers(specs: Sequence[str]) -> list[tuple[str, Autoscaler]]:
    return [(spec, registry.load_scaler(spec)) for spec in dict.fromkeys(specs)]


def compare_scalers(
    service: SimulatedService, scalers: Sequence[tuple[str, Autoscaler]], workloads: Sequence[Arrivals]
) -> list[ScalerFigures]:
    """Serve every workload under every autoscaler."""
    return [ScalerFigures(spec, [serve(service, scaler, each) for each in workloads]) for spec, scaler in scalers]


def parse_arrivals(text: str, seeds: Sequence[int]) -> list[Arrivals]:
    """Parse poisson:RATE:SECONDS or gamma:RATE:VARIATION:SECONDS, and draw one workload per seed."""
    from weft.sim.serving.arrivals import gamma, poisson

    name, *rest = text.split(":")
    try:
        numbers = [float(each) for each in rest]
    except ValueError:
        numbers = []
    if name == "poisson" and len(numbers) == 2 and min(numbers) > 0:
        return [poisson(numbers[0], numbers[1], seed) for seed in seeds]
    if name == "gamma" and len(numbers) == 3 and min(numbers) > 0:
        return [gamma(numbers[0], numbers[1], numbers[2], seed) for seed in seeds]
    hint = "write poisson:RATE:SECONDS or gamma:RATE:VARIATION:SECONDS, all above 0"
    raise InputError(f"--arrivals: bad value {text[:60]!r}", hint=hint)
