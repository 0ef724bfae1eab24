"""How the node is: what its GPUs look like, what keeps them from being used, its load."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from weft.agent.state_machine import Vitals
from weft.engines.process.gpu.poller import FactsAt
from weft.model import Blocked, Measured, Unblocked
from weft.wire.messages import GpuBlock, GpuMemory, GpuReading

_MEMORY: Final = "/proc/meminfo"
Seen = Callable[[Sequence[GpuBlock], Sequence[GpuMemory]], None]


class NodeStatus:
    """Adds up what the GPU poller finds; `seen` is told all that blocks GPUs, and what runs were seen to need."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._blocks: dict[tuple[int, str], GpuBlock] = {}

    def gpus_changed(self, facts_at: FactsAt) -> None:
        measured = []
        for fact in facts_at(time.monotonic()):
            match fact:
                case Blocked():
                    self._blocks[fact.gpu, fact.why] = GpuBlock(
                        gpu=fact.gpu, why=fact.why, memory_mb=fact.memory_mb, detail=fact.detail
                    )
                case Unblocked():
                    self._blocks.pop((fact.gpu, fact.why), None)
                case Measured():
                    measured.append(GpuMemory(job=fact.job, run=fact.run, memory_mb=fact.memory_mb))
        self._seen(tuple(self._blocks.values()), tuple(measured))

    def vitals(self, readings: Mapping[int, Mapping[str, Any]]) -> Vitals:
        return Vitals(
            os.getloadavg()[0],
            ram_used_mb(),
            tuple(
                GpuReading(
                    gpu=gpu,
                    used_mb=reading["used_mb"],
                    utilisation=reading["utilisation"] or 0,
                    processes=reading["processes"],
                )
                for gpu, reading in readings.items()
            ),
        )


def ram_used_mb() -> int:
    """What is not to be had any more."""
    try:
        with open(_MEMORY, encoding="ascii") as file:
            found = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in file)}
        return (found["MemTotal"] - found["MemAvailable"]) >> 10
    except (OSError, ValueError, KeyError, IndexError):
        return 0
