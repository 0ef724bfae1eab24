"""Parser of Weft's YAML cluster file (docs/reference/cluster-spec.md). Every error names its line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import yaml

from weft.inputs.yaml import YamlMapping, YamlValue, parse_yaml
from weft.model import Gpu, Node
from weft.sim.traces.formats.draft import MAX_GPUS

MAX_NODES: Final = MAX_GPUS

_GROUP_KEYS: Final = ("count", "gpus", "gpu_model", "memory_mb", "cpus", "ram_mb", "switch", "name", "labels")
_GPU_KEYS: Final = ("model", "memory_mb")


def parse_cluster(text: str, file: str) -> tuple[Node, ...]:
    root = parse_yaml(text, file).mapping("a cluster", ("nodes",))
    groups = root.require("nodes").items("a list of node groups")
    nodes: dict[str, Node] = {}
    gpus = 0
    numbers: Counter[str] = Counter()
    for group in groups:
        for node in _parse_group(group, numbers, MAX_NODES - len(nodes)):
            if node.id in nodes:
                raise group.error(f"node id {node.id!r} occurs twice", "give the groups prefixes that cannot collide")
            nodes[node.id] = node
            gpus += len(node.gpus)
            if gpus > MAX_GPUS:
                raise group.error("too many GPUs", f"expected at most {MAX_GPUS:,} in all")
    if not gpus:
        raise root.require("nodes").error("no GPUs", "expected at least one in all, such as - {count: 4, gpus: 8}")
    return tuple(nodes.values())


def _parse_group(value: YamlValue, numbers: Counter[str], remaining: int) -> Iterator[Node]:
    """Yield the nodes of one group; `numbers` counts the nodes of each prefix across the file."""
    group = value.mapping("a node group", _GROUP_KEYS)
    count = group.whole("count", 1, low=1, high=MAX_NODES)
    if count > remaining:
        raise value.error("too many nodes", f"expected at most {MAX_NODES:,} in all")
    gpus, labels = _parse_gpus(group), _parse_labels(group)
    cpus, ram_mb, switch = group.whole("cpus", 0), group.whole("ram_mb", 0), group.text("switch", "s0")
    prefix = group.text("name", "n")
    for _ in range(count):
        number = numbers[prefix]
        numbers[prefix] += 1
        yield Node(f"{prefix}{number}", gpus, cpus, ram_mb, switch, labels)


def _parse_gpus(group: YamlMapping) -> tuple[Gpu, ...]:
    """Return equal GPUs from a count, or different ones from a list. The group gives default model and memory."""
    default = Gpu(group.text("gpu_model", ""), group.whole("memory_mb", Gpu().memory_mb, low=1))
    gpus = group.require("gpus")
    if not isinstance(gpus.node, yaml.SequenceNode):
        return (default,) * gpus.whole(high=MAX_GPUS)
    each = [gpu.mapping("a GPU", _GPU_KEYS) for gpu in gpus.items("a list of GPUs")]
    return tuple(
        Gpu(gpu.text("model", default.model), gpu.whole("memory_mb", default.memory_mb, low=1)) for gpu in each
    )


def _parse_labels(group: YamlMapping) -> tuple[tuple[str, str], ...]:
    labels = group.get("labels")
    if labels is None:
        return ()
    return tuple(sorted((key, value.text()) for key, value in labels.mapping("labels").entries.items()))
