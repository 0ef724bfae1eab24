"""The figures of a simulation: labels, and values in human form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weft.cli.tables import BEST, Cell
from weft.text import format_duration

LABELS: Final = {
    "avg_jct_s": "average JCT",
    "p50_jct_s": "median JCT",
    "p99_jct_s": "99th percentile JCT",
    "makespan_s": "makespan",
    "avg_queue_s": "average time in the queue",
    "avg_first_wait_s": "average wait for the first start",
    "gpu_utilisation": "GPU utilisation",
    "preemptions": "preemptions",
    "restarts": "restarts",
    "fairness_max_rho": "largest rho (fairness; 1 is fair)",
}
"""The labels of the figures, in the order of output."""


def pairs(values: Mapping[str, float | None]) -> list[tuple[str, Cell]]:
    """Return label and value of each figure, in the order of `LABELS`."""
    return [(label, cell(key, values[key])) for key, label in LABELS.items()]


def cell(key: str, value: float | None, *, best: bool = False) -> Cell:
    return Cell("-" if value is None else _human(key, value), BEST if best else "", value)


def _human(key: str, value: float) -> str:
    if key == "cpu_s":
        return f"{value:.2f}"
    if key.endswith("_s"):
        return format_duration(value)
    if key == "gpu_utilisation":
        return f"{value:.1%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
