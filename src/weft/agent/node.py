"""This machine as the agent describes it to the scheduler."""

from __future__ import annotations

from weft.agent.runtime import with_gpus_in_use
from weft.agent.state_dir import AgentDir
from weft.engines.process.gpu.discovery import Machine
from weft.wire.convert import variables
from weft.wire.messages import GpuSpec, NodeSpec


def machine_in_use(machine: Machine, folder: AgentDir) -> Machine:
    """Return the machine with its previous GPUs, if they have changed while runs use them."""
    return with_gpus_in_use(machine, folder.state, in_use=bool(folder.unfinished(folder.unconfirmed())))


def node_spec(machine: Machine, address: str, port: int, labels: tuple[tuple[str, str], ...] = ()) -> NodeSpec:
    """Return the description of the node: its `address` for other nodes, and the first `port` for gangs (0: any)."""
    node = machine.node
    gpus = [
        GpuSpec(index=device.index, uuid=device.uuid, model=gpu.model, memory_mb=gpu.memory_mb)
        for gpu, device in zip(node.gpus, machine.devices, strict=True)
    ]
    return NodeSpec(
        id=node.id, gpus=gpus, cpus=node.cpus, ram_mb=node.ram_mb, switch=node.switch, address=address, port=port,
        labels=variables(labels),
    )  # fmt: skip
