"""Nodes between the agent's machine, the wire and the core."""

from __future__ import annotations

from weft.access.wire.convert import node_of
from weft.model import Gpu, Node
from weft.node.engine.gpu.discovery import Machine
from weft.node.engine.gpu.nvml import Device
from weft.node.engine.messages import node_spec


def a_machine() -> Machine:
    node = Node("n1", (Gpu("A100", 40_000), Gpu("H100", 80_000)), cpus=8, ram_mb=1000, switch="s1")
    return Machine(node, (Device(3, "GPU-a", "A100", 40_000), Device(5, "GPU-b", "H100", 80_000)), "driver")


def test_a_machine_arrives_as_the_node_it_is() -> None:
    spec = node_spec(a_machine(), "10.0.0.1", 29500, (("zone", "a"),))
    node = node_of(spec, "disk")
    assert (node.id, node.gpus) == ("n1", a_machine().node.gpus)
    assert (node.cpus, node.ram_mb, node.switch, node.disk_id) == (8, 1000, "s1", "disk")
    assert node.labels == (("node", "n1"), ("zone", "a"))
    assert [(gpu.index, gpu.uuid) for gpu in spec.gpus] == [(3, "GPU-a"), (5, "GPU-b")]
    assert (spec.address, spec.port) == ("10.0.0.1", 29500)


def test_a_node_cannot_take_the_name_of_another_by_a_label() -> None:
    assert node_of(node_spec(a_machine(), "", 0, (("node", "n2"),)), "").labels == (("node", "n1"),)
