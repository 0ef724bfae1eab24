"""Placements of shared GPUs leave out idle nodes that are like another one; the choice stays that over all nodes."""

from __future__ import annotations

import random

import pytest

from weft.model import Gpu, Job, Node, PerRank, Replica, Share, Where
from weft.scheduling.core.planning.tentative import TentativeRun, slots_of
from weft.scheduling.core.resources.cluster import ClusterResources
from weft.scheduling.core.resources.free import Free, members
from weft.scheduling.core.resources.node import Occupant
from weft.scheduling.core.resources.shapes import Shape, shape_of
from weft.scheduling.plugins import registry
from weft.scheduling.sharing.port import SharePlacement

PLACEMENTS = ["dilu", "exclusive", "infless-l", "infless-r", "holes"]
GB = 1024


def cluster_of(draws: random.Random) -> ClusterResources:
    resources = ClusterResources()
    for number in range(draws.randint(4, 20)):
        model, memory_gb = draws.choice([("a", 40), ("a", 40), ("b", 80)])
        gpus = (Gpu(model, memory_gb * GB),) * draws.choice([2, 4, 4])
        if draws.random() < 0.1:
            gpus = (*gpus[1:], Gpu("c", 16 * GB))
        resources.join(Node(f"n{number}", gpus, cpus=draws.choice([0, 0, 8])))
    return resources


def shape_drawn(draws: random.Random) -> Shape:
    request = draws.randint(1, 20) / 20
    share, memory_mb = Share(request, min(1.0, request + draws.choice([0, 0.2]))), PerRank(draws.randint(1, 40) * GB)
    where = Where(gpu_model=draws.choice(["", "", "", "a", "b"]))
    if draws.random() < 0.5:
        replica = Replica(draws.choice("stu"), 0)
        return shape_of(Job("r", 1, share=share, memory_mb=memory_mb, where=where, replica=replica))
    gpus = draws.choice([1, 2, 2, 3, 4])
    return shape_of(Job("j", gpus, share=share, memory_mb=memory_mb, where=where, cpus=draws.choice([0, 0, 1, 3])))


def place_over_all(placement: SharePlacement, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
    able = list(members(free.at_least(shape.gpus)))
    found = placement._choose(shape, [free.nodes[node] for node in able], [free.gpus(n, shape) for n in able], free)
    return None if found is None else ((able[found[0]], shape.gpus),)


@pytest.mark.parametrize("name", PLACEMENTS)
@pytest.mark.parametrize("seed", range(15))
def test_the_choice_is_that_over_all_nodes(name: str, seed: int) -> None:
    draws, placement = random.Random(seed), registry.load_placement(name)
    assert isinstance(placement, SharePlacement)
    resources, runs = cluster_of(draws), list[TentativeRun]()
    for _ in range(50):
        shape = shape_drawn(draws)
        for after_release in (False, True):
            free = resources.free_for(shape, after_release=after_release)
            if shape.gpus <= free.largest():
                assert placement.place(shape, free) == place_over_all(placement, shape, free)
        parts, what = placement.place(shape, resources.free_for(shape, after_release=False)), draws.random()
        if what < 0.6 and parts is not None:
            slots = slots_of(resources, shape, parts, placement)
            assert slots is not None
            assert [(resources.by_id[node].index, len(gpus)) for node, gpus in slots] == list(parts)
            runs.append(TentativeRun(shape, slots))
            resources.hold(runs[-1], slots)
        elif what < 0.7:
            host = draws.choice(resources.nodes)
            memory_mb = draws.choice([None, 4 * GB])
            resources.occupy(Occupant(host.node.id, draws.randrange(len(host.node.gpus)), "foreign", memory_mb, ""))
        elif runs:
            run = draws.choice(runs)
            if run.releasing or draws.random() < 0.5:
                runs.remove(run)
                resources.release(run, run.placed)
            else:
                run.releasing = True
                resources.begin_release(run, run.placed)
