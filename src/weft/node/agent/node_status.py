"""The status of the node: GPU readings and blocks, load and memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from weft.access.wire.messages import GpuBlock, GpuMemory, GpuReading, GpuShare, NodeStatus
from weft.model import Blocked, Measured, Unblocked
from weft.node.agent.runtime import with_gpus_in_use
from weft.node.agent.state_dir import AgentDir
from weft.node.engine.gpu.discovery import Machine
from weft.node.engine.gpu.poller import FactsAt
from weft.node.engine.gpu.sharing import SharedRun

_MEMINFO: Final = "/proc/meminfo"
OnGpus = Callable[[Sequence[GpuBlock], Sequence[GpuMemory]], None]


class NodeStatusCollector:
    """Collects the facts of the GPU poller. Calls `on_gpus` with all blocks and the newly measured needs.

    `folder` holds the agent's files: a status may measure its disk.
    """

    def __init__(self, folder: AgentDir, on_gpus: OnGpus) -> None:
        self.folder, self._on_gpus = folder, on_gpus
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
        self._on_gpus(tuple(self._blocks.values()), tuple(measured))

    def current(self, readings: Mapping[int, Mapping[str, Any]], shared: Sequence[SharedRun] = ()) -> NodeStatus:
        return NodeStatus(
            load=os.getloadavg()[0],
            ram_used_mb=ram_used_mb(),
            readings=[
                GpuReading(
                    gpu=gpu,
                    used_mb=reading["used_mb"],
                    utilisation=reading["utilisation"] or 0,
                    processes=reading["processes"],
                    energy_j=reading["energy_j"],
                    error=reading["error"],
                )
                for gpu, reading in readings.items()
            ],
            disk_free_mb=_disk_free_mb(self.folder.state),
            shares=[GpuShare(**asdict(run)) for run in shared],
        )


def _disk_free_mb(folder: Path) -> int | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize >> 20


def ram_used_mb() -> int:
    """Return the memory in use, or 0 if unknown."""
    try:
        with open(_MEMINFO, encoding="ascii") as file:
            found = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in file)}
        return (found["MemTotal"] - found["MemAvailable"]) >> 10
    except (OSError, ValueError, KeyError, IndexError):
        return 0


def describe_machine(machine: Machine, folder: AgentDir) -> Machine:
    """Return the machine with its previous GPUs, if they have changed while runs use them."""
    return with_gpus_in_use(machine, folder.state, in_use=bool(folder.unfinished(folder.unconfirmed())))
