"""This machine as the scheduler is told of it."""

from __future__ import annotations

from weft.agent.runtime import with_gpus_in_use
from weft.agent.state_dir import Folder
from weft.engines.process.gpu.discovery import Machine
from weft.wire.convert import variables
from weft.wire.messages import GpuSpec, NodeSpec


def settled(machine: Machine, folder: Folder) -> Machine:
    """The machine with the GPUs it had, where those have changed while runs are on them."""
    return with_gpus_in_use(machine, folder.state, in_use=bool(folder.living(folder.unsettled())))


def spec_of(machine: Machine, address: str, port: int, labels: tuple[tuple[str, str], ...] = ()) -> NodeSpec:
    """`address`: how other nodes reach it; `port`: from which on its gangs may meet, 0 for any."""
    node = machine.node
    gpus = [
        GpuSpec(index=device.index, uuid=device.uuid, model=gpu.model, memory_mb=gpu.memory_mb)
        for gpu, device in zip(node.gpus, machine.devices, strict=True)
    ]
    return NodeSpec(
        id=node.id, gpus=gpus, cpus=node.cpus, ram_mb=node.ram_mb, switch=node.switch, address=address, port=port,
        labels=variables(labels),
    )  # fmt: skip
