"""GPU memory that runs need: their allocation, corrected by the usage that the driver reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weft.model import JobId, Measured, Seconds
from weft.node.engine.gpu.nvml import Device, Reading

if TYPE_CHECKING:
    from weft.node.engine.gpu.monitor import RunOnGpus

RESERVE_MB: Final = 256
RESERVE_SHARE: Final = 0.03
ROUNDING_MB: Final = 256
"""Figures are rounded up to this, so that small changes produce no event."""


@dataclass(slots=True)
class _Peak:
    since: Seconds
    allocated_mb: int
    peak_mb: int = 0


class MemoryTracker:
    """The peak memory usage of every run."""

    def __init__(self, warm_up_s: float) -> None:
        self._warm_up_s = warm_up_s
        self._peaks: dict[tuple[JobId, int], _Peak] = {}

    def update(
        self,
        at: Seconds,
        gpus: Mapping[int, tuple[Device, Reading]],
        runs: Mapping[tuple[JobId, int], RunOnGpus],
    ) -> list[Measured]:
        """Return the runs whose need has changed: a larger one at once, a smaller one after the warm-up."""
        self._peaks = {key: peak for key, peak in self._peaks.items() if key in runs}
        gpus_in_use = [gpu for run in runs.values() for gpu in run.gpus]
        changes = []
        for (job, number), run in runs.items():
            peak = self._peaks.setdefault((job, number), _Peak(max(at, run.started_at), run.memory_mb))
            for gpu in run.gpus:
                if gpu in gpus:
                    peak.peak_mb = max(
                        peak.peak_mb, used_by_mb(gpus[gpu][1], run.pids, alone=gpus_in_use.count(gpu) == 1)
                    )
            capacity_mb = min((gpus[gpu][0].memory_mb for gpu in run.gpus if gpu in gpus), default=0)
            need_mb = min(needed_mb(peak.peak_mb), capacity_mb)
            if not peak.peak_mb or need_mb == peak.allocated_mb:
                continue
            if peak.peak_mb > peak.allocated_mb or (need_mb < peak.allocated_mb and at - peak.since >= self._warm_up_s):
                peak.allocated_mb = need_mb
                changes.append(Measured(at, job, number, need_mb))
        return changes


def needed_mb(peak_mb: int) -> int:
    """Return a peak with its reserve, rounded up."""
    wanted = peak_mb + max(RESERVE_MB, int(RESERVE_SHARE * peak_mb))
    return round_up_mb(wanted)


def round_up_mb(memory_mb: int) -> int:
    return -(-memory_mb // ROUNDING_MB) * ROUNDING_MB


def used_by_mb(reading: Reading, pids: frozenset[int], *, alone: bool) -> int:
    """Return the memory that these processes use on a GPU.

    If the driver does not report it per process, a run that is alone on the GPU counts with all memory in use.
    """
    candidates = [process for process in reading.processes if process.pid in pids or not process.visible]
    if alone and candidates and any(process.used_mb is None or not process.visible for process in candidates):
        return reading.used_mb
    return sum(process.used_mb or 0 for process in candidates if process.pid in pids)
