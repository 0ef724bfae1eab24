"""What this machine has: its GPUs, from the driver or as declared, its CPUs and its memory."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from weft.engines.process.gpu.nvml import Device, NoDriver, Nvml
from weft.errors import InputError
from weft.model import Gpu, Node, NodeId

DEVICES_FILE: Final = "devices.json"


@dataclass(frozen=True, slots=True)
class Declared:
    """GPUs as a person names them. Models and memories: one for each GPU, or none."""

    indices: tuple[int, ...]
    models: tuple[str, ...] = ()
    memories_mb: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    node: Node
    devices: tuple[Device, ...]
    """The device behind each of the node's GPUs, in the same order."""
    source: Literal["driver", "declared", "none", "before"]
    note: str = ""
    """Why there is no driver to ask, or why these GPUs and not those that are there now."""

    def indices(self, gpus: Sequence[int]) -> tuple[int, ...]:
        """What the driver calls these GPUs of the node."""
        return tuple(self.devices[gpu].index for gpu in gpus)

    def uuids(self, gpus: Sequence[int]) -> tuple[str, ...]:
        """Their uuids; nothing unless all are known."""
        found = tuple(self.devices[gpu].uuid for gpu in gpus)
        return found if all(found) else ()


def discover(node: NodeId, nvml: Nvml | NoDriver, declared: Declared | None = None) -> Machine:
    """This machine as a node. What is declared goes before what the driver says, GPU by GPU."""
    known = () if isinstance(nvml, NoDriver) else nvml.devices()
    note = nvml.reason if isinstance(nvml, NoDriver) else ""
    if declared is None:
        return Machine(_node(node, known), known, "driver" if known else "none", note)
    devices = _declare(declared, known)
    return Machine(_node(node, devices), devices, "declared", note)


def _node(node: NodeId, devices: tuple[Device, ...]) -> Node:
    gpus = tuple(Gpu(device.model, device.memory_mb) for device in devices)
    return Node(node, gpus, cpus=cpu_count(), ram_mb=ram_mb())


def _declare(declared: Declared, known: tuple[Device, ...]) -> tuple[Device, ...]:
    _check(declared)
    by_index = {device.index: device for device in known}
    devices = []
    for place, index in enumerate(declared.indices):
        found = by_index.get(index)
        if found is None and known:
            there = ", ".join(str(number) for number in by_index)
            raise InputError(f"there is no GPU {index}", hint=f"the driver knows {there}")
        model = declared.models[place] if declared.models else found.model if found else ""
        memory = found.memory_mb if found else Gpu().memory_mb
        if declared.memories_mb:
            memory = declared.memories_mb[place]
        devices.append(Device(index, found.uuid if found else "", model, memory))
    return tuple(devices)


def _check(declared: Declared) -> None:
    count = len(declared.indices)
    for what, values in (("models", declared.models), ("memories", declared.memories_mb)):
        if values and len(values) != count:
            raise InputError(f"{count} GPUs but {len(values)} {what}", hint="give one for each GPU, in the same order")
    if len(set(declared.indices)) != count:
        raise InputError(f"a GPU is named twice: {', '.join(map(str, declared.indices))}")
    if any(index < 0 for index in declared.indices):
        raise InputError(f"GPUs are numbered from 0, not {min(declared.indices)}")
    if any(memory <= 0 for memory in declared.memories_mb):
        raise InputError(f"a GPU's memory is in MB and more than 0, not {min(declared.memories_mb)}")


def cpu_count() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def ram_mb() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)


def load_devices(state: Path) -> tuple[Device, ...]:
    """Empty where nobody knows."""
    try:
        return tuple(Device(**device) for device in json.loads((state / DEVICES_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return ()


def save_devices(state: Path, devices: tuple[Device, ...]) -> None:
    beside = state / f"{DEVICES_FILE}.tmp"
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump([asdict(device) for device in devices], file)
    beside.replace(state / DEVICES_FILE)
