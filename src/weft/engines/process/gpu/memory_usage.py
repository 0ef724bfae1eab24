"""What runs need of their GPUs' memory: what they were given, corrected by what they were seen to hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weft.engines.process.gpu.nvml import Device, Reading
from weft.model import JobId, Measured, Seconds

if TYPE_CHECKING:
    from weft.engines.process.gpu.monitor import RunOnGpus

RESERVE_MB: Final = 256
RESERVE_SHARE: Final = 0.03
STEP_MB: Final = 256
"""Figures are rounded up to this, so that not every reading makes a fact."""


@dataclass(slots=True)
class _Mark:
    since: Seconds
    given_mb: int
    peak_mb: int = 0


class Needs:
    """The high-water mark of every run."""

    def __init__(self, warm_up_s: float) -> None:
        self._warm_up_s = warm_up_s
        self._marks: dict[tuple[JobId, int], _Mark] = {}

    def look(
        self,
        at: Seconds,
        gpus: Mapping[int, tuple[Device, Reading]],
        runs: Mapping[tuple[JobId, int], RunOnGpus],
    ) -> list[Measured]:
        """More is told at once, less after the warm-up. Something above the mark is always kept."""
        self._marks = {key: mark for key, mark in self._marks.items() if key in runs}
        crowd = [gpu for run in runs.values() for gpu in run.gpus]
        found = []
        for (job, number), run in runs.items():
            mark = self._marks.setdefault((job, number), _Mark(max(at, run.started_at), run.memory_mb))
            for gpu in run.gpus:
                if gpu in gpus:
                    mark.peak_mb = max(mark.peak_mb, held_mb(gpus[gpu][1], run.pids, alone=crowd.count(gpu) == 1))
            room = min((gpus[gpu][0].memory_mb for gpu in run.gpus if gpu in gpus), default=0)
            need = min(needed_mb(mark.peak_mb), room)
            if not mark.peak_mb or need == mark.given_mb:
                continue
            if mark.peak_mb > mark.given_mb or (need < mark.given_mb and at - mark.since >= self._warm_up_s):
                mark.given_mb = need
                found.append(Measured(at, job, number, need))
        return found


def needed_mb(peak_mb: int) -> int:
    """A mark with its reserve, in whole steps."""
    wanted = peak_mb + max(RESERVE_MB, int(RESERVE_SHARE * peak_mb))
    return in_steps(wanted)


def in_steps(memory_mb: int) -> int:
    return -(-memory_mb // STEP_MB) * STEP_MB


def held_mb(reading: Reading, pids: frozenset[int], *, alone: bool) -> int:
    """What these processes hold of a GPU. Where processes do not say, who is alone there holds it all."""
    own = [process for process in reading.processes if process.pid in pids or not process.visible]
    if alone and own and any(process.used_mb is None or not process.visible for process in own):
        return reading.used_mb
    return sum(process.used_mb or 0 for process in own if process.pid in pids)
