"""How the node is: what its GPUs look like, what keeps them from being used, its load."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Final

from weft.agent.state_machine import Vitals
from weft.engines.process.gpu.poller import Finding, Sentry
from weft.model import Blocked, Measured, Unblocked
from weft.wire.messages import GpuBlock, GpuMemory, GpuReading
from weft.wire.runs import RunKey

_MEMORY: Final = "/proc/meminfo"
Seen = Callable[[Sequence[GpuBlock], Sequence[GpuMemory]], None]


class Watching:
    """Adds up what a sentry tells into all that there is; `seen` is told that."""

    def __init__(self, sentry: Sentry | None, seen: Seen) -> None:
        self._sentry, self._seen = sentry, seen
        self._blocks: dict[tuple[int, str], GpuBlock] = {}

    async def open(self) -> None:
        if self._sentry is not None:
            self._sentry.start_over(())
            await self._sentry.open(self._take)

    async def close(self) -> None:
        if self._sentry is not None:
            await self._sentry.close()

    async def look_after(self, ended: RunKey) -> None:
        """A run has left its GPUs: what is still on them is told before its end is."""
        if self._sentry is not None and self._sentry.awake:
            self._take(await self._sentry.look(ended))

    def _take(self, finding: Finding) -> None:
        measured = []
        for fact in finding(time.monotonic()):
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

    def vitals(self) -> Vitals:
        readings = self._sentry.readings() if self._sentry is not None else {}
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
