"""This machine as the scheduler is told of it."""

from __future__ import annotations

import logging
from dataclasses import replace

from weft.agent.state_dir import Folder
from weft.engines.process.gpu.devices import load_devices, save_devices
from weft.engines.process.gpu.discovery import Machine
from weft.model import Gpu
from weft.wire.messages import GpuSpec, NodeSpec, Variable

log = logging.getLogger(__name__)


def settled(machine: Machine, folder: Folder) -> Machine:
    """The machine with the GPUs it had, where those have changed while runs are on them."""
    before = load_devices(folder.state)
    if before and before != machine.devices and folder.living(folder.unsettled()):
        note = "other GPUs than before, but jobs run on those: they change with the first start after these jobs"
        log.warning("%s", note)
        gpus = tuple(Gpu(device.model, device.memory_mb) for device in before)
        return replace(machine, node=replace(machine.node, gpus=gpus), devices=before, note=note, source="before")
    save_devices(folder.state, machine.devices)
    return machine


def spec_of(machine: Machine, address: str, port: int, labels: tuple[tuple[str, str], ...] = ()) -> NodeSpec:
    """`address`: how other nodes reach it; `port`: from which on its gangs may meet, 0 for any."""
    node = machine.node
    gpus = [
        GpuSpec(index=device.index, uuid=device.uuid, model=gpu.model, memory_mb=gpu.memory_mb)
        for gpu, device in zip(node.gpus, machine.devices, strict=True)
    ]
    return NodeSpec(
        id=node.id, gpus=gpus, cpus=node.cpus, ram_mb=node.ram_mb, switch=node.switch, address=address, port=port,
        labels=[Variable(name=name, value=value) for name, value in labels],
    )  # fmt: skip
