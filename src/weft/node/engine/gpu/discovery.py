"""Discovery of this machine: its GPUs, from the driver or as declared, its CPUs and its memory."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from weft.errors import InputError
from weft.inputs.atomic import write_atomic
from weft.model import Gpu, Node, NodeId
from weft.node.engine.gpu.nvml import Device, NoDriver, Nvml

ONE_PER_GPU: Final = "give one per GPU, in the same order"
DEVICES_FILE: Final = "devices.json"


@dataclass(frozen=True, slots=True)
class DeclaredGpus:
    """GPUs as the user declares them. Models and memories have one entry per GPU, or none."""

    indices: tuple[int, ...]
    models: tuple[str, ...] = ()
    memories_mb: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine as a node, and the devices behind its GPUs."""

    node: Node
    devices: tuple[Device, ...]
    """The device behind each of the node's GPUs, in the same order."""
    source: Literal["driver", "declared", "none", "before"]
    note: str = ""
    """Why there is no driver, or why these GPUs are used instead of the present ones."""

    def indices(self, gpus: Sequence[int]) -> tuple[int, ...]:
        """Return the driver's indices of these GPUs of the node."""
        return tuple(self.devices[gpu].index for gpu in gpus)

    def uuids(self, gpus: Sequence[int]) -> tuple[str, ...]:
        """Return the UUIDs of these GPUs, or nothing unless all are known."""
        found = tuple(self.devices[gpu].uuid for gpu in gpus)
        return found if all(found) else ()


def discover(node: NodeId, nvml: Nvml | NoDriver, declared: DeclaredGpus | None = None) -> Machine:
    """Return this machine as a node. Declared values override those of the driver, GPU by GPU."""
    known = () if isinstance(nvml, NoDriver) else nvml.devices()
    note = nvml.reason if isinstance(nvml, NoDriver) else ""
    if declared is None:
        return Machine(_node(node, known), known, "driver" if known else "none", note)
    devices = _declared_devices(declared, known)
    return Machine(_node(node, devices), devices, "declared", note)


def machine_with(
    node: NodeId, devices: tuple[Device, ...], source: Literal["driver", "declared"], note: str = ""
) -> Machine:
    """Return this machine with these devices."""
    return Machine(_node(node, devices), devices, source, note)


def _node(node: NodeId, devices: tuple[Device, ...]) -> Node:
    gpus = tuple(Gpu(device.model, device.memory_mb) for device in devices)
    return Node(node, gpus, cpus=cpu_count(), ram_mb=ram_mb())


def _declared_devices(declared: DeclaredGpus, known: tuple[Device, ...]) -> tuple[Device, ...]:
    _check(declared)
    by_index = {device.index: device for device in known}
    devices = []
    for position, index in enumerate(declared.indices):
        found = by_index.get(index)
        if found is None and known:
            known_indices = ", ".join(str(number) for number in by_index)
            raise InputError(f"there is no GPU {index}", hint=f"the driver has {known_indices}")
        model = declared.models[position] if declared.models else found.model if found else ""
        memory = found.memory_mb if found else Gpu().memory_mb
        if declared.memories_mb:
            memory = declared.memories_mb[position]
        devices.append(Device(index, found.uuid if found else "", model, memory, found.path if found else ""))
    return tuple(devices)


def _check(declared: DeclaredGpus) -> None:
    count = len(declared.indices)
    for what, values in (("models", declared.models), ("memories", declared.memories_mb)):
        if values and len(values) != count:
            raise InputError(f"{what}: {len(values)} for {count} GPU{'' if count == 1 else 's'}", hint=ONE_PER_GPU)
    if len(set(declared.indices)) != count:
        raise InputError(f"a GPU is named twice: {', '.join(map(str, declared.indices))}")
    if any(index < 0 for index in declared.indices):
        raise InputError(f"invalid GPU index {min(declared.indices)}: GPUs are numbered from 0")
    if any(memory <= 0 for memory in declared.memories_mb):
        raise InputError(f"invalid GPU memory {min(declared.memories_mb)} MB: it must be more than 0")


def cpu_count() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def ram_mb() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)


def load_devices(state: Path) -> tuple[Device, ...] | None:
    """Return the saved devices; None: nothing was saved."""
    try:
        return tuple(Device(**device) for device in json.loads((state / DEVICES_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def save_devices(state: Path, devices: tuple[Device, ...]) -> None:
    """Save the devices for a scheduler that starts while jobs still run on them."""
    write_atomic(state / DEVICES_FILE, json.dumps([asdict(device) for device in devices]).encode())
