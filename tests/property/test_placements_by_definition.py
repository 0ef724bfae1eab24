"""The indexes of simple and balanced find the same node as a search of every node."""

from __future__ import annotations

import random

import pytest

from weft.model import Gpu, Node
from weft.scheduling.core.planning.tentative import TentativeRun, slots_of
from weft.scheduling.core.resources.cluster import ClusterResources
from weft.scheduling.core.resources.free import Free
from weft.scheduling.core.resources.node import Occupant
from weft.scheduling.core.resources.shapes import plain_shape
from weft.scheduling.plugins import registry

Parts = tuple[tuple[int, int], ...] | None


def idle(free: Free, node: int) -> bool:
    blocked = free.nodes[node].blocked()
    return free.tasks(node) == 0 and free.size[node] - free.count[node] in (0, blocked)


def wasted(free: Free, node: int, gpus: int) -> float:
    memory_gb = sum(gpu.memory_mb for gpu in free.nodes[node].node.gpus) / 1024
    return 0.7 * (free.count[node] - gpus) + 0.3 * memory_gb * free.count[node] / free.size[node]


def load(free: Free, node: int) -> float:
    return (free.tasks(node) - free.count[node]) / free.size[node]


def first_of(nodes: list[int], gpus: int, free: Free) -> Parts:
    parts = []
    for node in nodes:
        parts.append((node, min(gpus, free.count[node])))
        gpus -= parts[-1][1]
        if not gpus:
            return tuple(parts)
    return None


def by_definition(name: str, gpus: int, free: Free) -> Parts:
    able = [
        node for node, count in enumerate(free.count) if count and (name != "simple:idle_only=on" or idle(free, node))
    ]
    splits = gpus > free.largest()
    able = able if splits else [node for node in able if free.count[node] >= gpus]
    if name == "balanced":
        return first_of(sorted(able, key=lambda node: (load(free, node), node)), gpus, free)
    if splits:
        return first_of(sorted(able, key=lambda node: (-free.count[node], node)), gpus, free)
    return first_of(sorted(able, key=lambda node: (round(wasted(free, node, gpus), 9), node)), gpus, free)


def cluster_of(draws: random.Random) -> ClusterResources:
    resources = ClusterResources()
    for number in range(draws.randint(1, 12)):
        resources.join(Node(f"n{number}", (Gpu("", draws.choice([8, 16]) * 1024),) * draws.choice([1, 4, 4, 8])))
    return resources


@pytest.mark.parametrize("name", ["simple", "simple:idle_only=on", "balanced"])
@pytest.mark.parametrize("seed", range(30))
def test_where_a_job_goes_while_runs_come_and_go(name: str, seed: int) -> None:
    draws, placement = random.Random(seed), registry.load_placement(name)
    resources = cluster_of(draws)
    sitters: list[TentativeRun] = []
    for _ in range(60):
        shape = plain_shape(draws.choice([1, 1, 1, 2, 3, 4, 8, 13]))
        for free in (resources.idle, resources.after_release):
            parts = placement.place(shape, free)
            assert parts == by_definition(name, shape.gpus, free)
        what = draws.random()
        parts = placement.place(shape, resources.idle)
        if what < 0.6 and parts is not None:
            slots = slots_of(resources, shape, parts, placement)
            assert slots is not None
            sitters.append(TentativeRun(shape, slots))
            resources.hold(sitters[-1], slots)
        elif what < 0.7:
            room = draws.choice(resources.nodes)
            resources.occupy(Occupant(room.node.id, draws.randrange(len(room.node.gpus)), "blocked", None, ""))
        elif sitters:
            sitter = draws.choice(sitters)
            if sitter.releasing or draws.random() < 0.5:
                sitters.remove(sitter)
                resources.release(sitter, sitter.placed)
            else:
                sitter.releasing = True
                resources.begin_release(sitter, sitter.placed)


def test_a_node_that_comes_back_is_known_by_the_memory_it_has_now() -> None:
    """For one GPU: 0.3 x (16 - 0) = 4.8 against 0.3 x 32 = 9.6; once n0 has 64 GB, n1 wastes less."""
    resources, simple = ClusterResources(), registry.load_placement("simple")
    for name, memory_gb in (("n0", 16), ("n1", 32)):
        resources.join(Node(name, (Gpu("", memory_gb * 1024),)))
    assert simple.place(plain_shape(1), resources.idle) == ((0, 1),)
    resources.lose(resources.nodes[0])
    resources.join(Node("n0", (Gpu("", 64 * 1024),)))
    assert simple.place(plain_shape(1), resources.idle) == ((1, 1),)
