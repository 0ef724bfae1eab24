"""The contract of placements, tested on every registered one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from weft.errors import InputError, PlanError
from weft.model import Gpu, Job, Node, PerRank, Slots, Start
from weft.scheduling.core.planning.tentative import TentativeRun, slots_of
from weft.scheduling.core.resources.cluster import ClusterResources
from weft.scheduling.core.resources.free import Free
from weft.scheduling.core.resources.shapes import plain_shape, shape_of
from weft.scheduling.plugins import registry
from weft.sim.simulation import Setting, simulate
from weft.sim.traces.trace import TraceJob

PLACEMENTS = sorted(registry.registered_plugins("weft.placements"))
SPLITS_ANYHOW = {"count"}
every_placement = pytest.mark.parametrize("name", PLACEMENTS)


def index(sizes: list[int], counts: list[int], switches: list[str]) -> Free:
    """Nodes with some GPUs free, and one run on the others."""
    resources = ClusterResources()
    for place, (size, count, switch) in enumerate(zip(sizes, counts, switches, strict=True)):
        resources.join(Node(f"n{place}", (Gpu(),) * size, switch=switch))
        if count < size:
            hold(resources, f"n{place}", tuple(range(count, size)))
    return resources.idle


def hold(resources: ClusterResources, node: str, gpus: tuple[int, ...]) -> None:
    slots: Slots = ((node, gpus),)
    resources.hold(TentativeRun(plain_shape(len(gpus)), slots), slots)


@st.composite
def wishes(draw: st.DrawFn, sizes: st.SearchStrategy[list[int]]) -> tuple[Free, int]:
    """Nodes with some GPUs free, and how many are wanted."""
    size = draw(sizes)
    counts = [draw(st.integers(0, gpus)) for gpus in size]
    free = index(size, counts, [draw(st.sampled_from("st")) for _ in size])
    note(f"nodes of {size} with {counts} to give")
    return free, draw(st.integers(1, sum(size) + 1))


alike = st.tuples(st.integers(1, 8), st.integers(1, 6)).map(lambda pair: [pair[0]] * pair[1])
mixed = st.lists(st.integers(1, 8), min_size=1, max_size=6)


def place(name: str, gpus: int, free: Free) -> tuple[tuple[int, int], ...] | None:
    return registry.load_placement(name).place(plain_shape(gpus), free)


# Drawing a cluster takes longer than placing a gang on it, so each is drawn once for all placements.


@given(wish=wishes(mixed))
def test_gives_exactly_what_was_asked_and_no_more_than_there_is(wish: tuple[Free, int]) -> None:
    free, gpus = wish
    for name in PLACEMENTS:
        parts = place(name, gpus, free)
        if parts is not None:
            assert sum(count for _, count in parts) == gpus, name
            assert len({node for node, _ in parts}) == len(parts), name
            assert all(0 < count <= free.count[node] for node, count in parts), name


@given(wish=wishes(mixed))
def test_finds_a_node_that_can_hold_it(wish: tuple[Free, int]) -> None:
    free, gpus = wish
    for name in PLACEMENTS if any(count >= gpus for count in free.count) else ():
        parts = place(name, gpus, free)
        assert parts is not None, name
        assert name in SPLITS_ANYHOW or len(parts) == 1, name


@given(wish=wishes(mixed))
def test_splits_a_gang_only_where_no_node_could_hold_it(wish: tuple[Free, int]) -> None:
    free, gpus = wish
    for name in sorted(set(PLACEMENTS) - SPLITS_ANYHOW) if gpus <= max(free.size) else ():
        parts = place(name, gpus, free)
        assert parts is None or len(parts) == 1, name


@given(wish=wishes(alike))
def test_what_does_not_fit_fits_no_larger_on_equal_nodes(wish: tuple[Free, int]) -> None:
    free, gpus = wish
    for name in PLACEMENTS:
        if place(name, gpus, free) is None and gpus != free.largest():
            assert place(name, gpus + 1, free) is None, name


@given(wish=wishes(mixed))
def test_what_does_not_fit_fits_no_larger_on_unequal_nodes(wish: tuple[Free, int]) -> None:
    """Only a gang that no node could hold may be split, and so fit where one less did not."""
    free, gpus = wish
    for name in PLACEMENTS:
        if place(name, gpus, free) is None and gpus < free.largest():
            assert place(name, gpus + 1, free) is None, name


@given(wish=wishes(mixed))
def test_leaves_the_index_as_it_was(wish: tuple[Free, int]) -> None:
    free, gpus = wish
    before = (list(free.count), list(free.levels), free.mask)
    for name in PLACEMENTS:
        place(name, gpus, free)
        assert (list(free.count), list(free.levels), free.mask) == before, name


@every_placement
def test_uses_a_whole_idle_cluster(name: str) -> None:
    free = index([8, 8, 8], [8, 8, 8], ["s", "s", "t"])
    parts = place(name, 24, free)
    assert parts is not None
    assert dict(parts) == {0: 8, 1: 8, 2: 8}


NODES_OF_EIGHT: dict[str, tuple[tuple[int, int], ...]] = {
    "yarn": ((1, 3),),  # first fit
    "packed": ((2, 3),),  # best fit
    "spread": ((3, 3),),  # worst fit
    "count": ((0, 2), (1, 1)),  # whatever comes first
    "simple": ((2, 3),),  # the tightest: all GPUs have the same memory
    "balanced": ((3, 3),),  # (1 - 2)/8, (1 - 5)/8, (1 - 3)/8, (0 - 8)/8
    "memory-fit": ((1, 3),),  # all GPUs have the same memory: the first
    "fgd": ((2, 3),),  # no demand yet: the tightest
    "dilu": ((1, 3),),  # no GPU is shared: the first node
    "exclusive": ((1, 3),),
    "infless-l": ((1, 3),),
    "infless-r": ((1, 3),),
    "holes": ((2, 3),),  # the node with the fewest GPUs to give
}


@pytest.mark.parametrize(("name", "expected"), NODES_OF_EIGHT.items())
def test_three_gpus_on_nodes_with_two_five_three_and_eight(name: str, expected: tuple[tuple[int, int], ...]) -> None:
    assert place(name, 3, index([8] * 4, [2, 5, 3, 8], ["s"] * 4)) == expected


def test_packed_keeps_a_large_gang_under_one_switch() -> None:
    free = index([8] * 4, [8, 8, 8, 8], ["s", "t", "u", "t"])
    assert place("packed", 16, free) == ((1, 8), (3, 8))


def test_yarn_takes_whole_nodes_and_a_rest_as_muri_does() -> None:
    free = index([8] * 4, [7, 8, 3, 8], ["s"] * 4)
    assert place("yarn", 20, free) == ((1, 8), (3, 8), (0, 4))
    assert place("yarn", 24, free) is None


def test_simple_wastes_least() -> None:
    """0.7 x GPUs too many + 0.3 x GB too much, for 2 GPUs of 8 GB: n0 0.7*2 + 0.3*(4*16-16) = 15.8, n1 0.7*6 +
    0.3*(8*8-16) = 18.6, n2 0.7*1 + 0.3*(3*40-16) = 31.9."""
    resources = ClusterResources()
    for name, count, memory_gb in (("n0", 4, 16), ("n1", 8, 8), ("n2", 3, 40)):
        resources.join(Node(name, (Gpu("", memory_gb * 1024),) * count))
    shape = shape_of(Job("j", 2, memory_mb=PerRank(8 * 1024)))
    assert registry.load_placement("simple").place(shape, resources.free_for(shape, after_release=False)) == ((0, 2),)


def test_simple_counts_what_is_free_on_a_node_in_use() -> None:
    """For 1 GPU of 8 GB: n0 has 1 of 4 GPUs of 80 GB free, 0.3*72 = 21.6; n1 is idle, 0.7*3 + 0.3*(4*16-8) = 18.9."""
    resources = ClusterResources()
    resources.join(Node("n0", (Gpu("", 80 * 1024),) * 4))
    resources.join(Node("n1", (Gpu("", 16 * 1024),) * 4))
    hold(resources, "n0", (1, 2, 3))
    shape = shape_of(Job("j", 1, memory_mb=PerRank(8 * 1024)))
    assert registry.load_placement("simple").place(shape, resources.free_for(shape, after_release=False)) == ((1, 1),)
    hold(resources, "n1", (2, 3))
    assert registry.load_placement("simple").place(shape, resources.free_for(shape, after_release=False)) == ((1, 1),)
    assert (
        registry.load_placement("simple:idle_only=on").place(shape, resources.free_for(shape, after_release=False))
        is None
    )


def test_simple_and_balanced_skip_gpus_with_too_little_memory() -> None:
    resources = ClusterResources()
    resources.join(Node("n0", (Gpu("", 8_000),) * 4))
    resources.join(Node("n1", (Gpu("", 8_000), Gpu("", 24_000), Gpu("", 24_000))))
    shape = shape_of(Job("j", 2, memory_mb=PerRank(16_000)))
    for name in ("simple", "balanced"):
        placement = registry.load_placement(name)
        parts = placement.place(shape, resources.free_for(shape, after_release=False))
        assert parts == ((1, 2),)
        assert slots_of(resources, shape, parts, placement) == (("n1", (1, 2)),)


def test_memory_fit_leaves_the_large_gpus() -> None:
    resources = ClusterResources()
    resources.join(Node("n0", (Gpu("", 80_000), Gpu("", 24_000), Gpu("", 40_000))))
    shape, placement = shape_of(Job("j", 1, memory_mb=PerRank(30_000))), registry.load_placement("memory-fit")
    parts = placement.place(shape, resources.free_for(shape, after_release=False))
    assert parts == ((0, 1),)
    assert slots_of(resources, shape, parts, placement) == (("n0", (2,)),)


def test_fgd_keeps_room_for_what_is_asked_for() -> None:
    """Half ask for 1 GPU, half for 4. With k free, useless are k/2 for k < 4, else 0. One GPU from 5 free: 0 -> 0;
    from 4: 0 -> 1.5; from 3: 1.5 -> 1. So it goes to the node with 3, where least more becomes useless."""
    free = index([8] * 3, [4, 5, 3], ["s"] * 3)
    free.recent = {plain_shape(1): 10, plain_shape(4): 10}
    assert place("fgd", 1, free) == ((2, 1),)
    free = index([8] * 2, [4, 5], ["s"] * 2)
    free.recent = {plain_shape(1): 10, plain_shape(4): 10}
    assert place("fgd", 1, free) == ((1, 1),)


CLASSIC = """
def assign(workers, task):
    for name in sorted(workers, reverse=True):
        free = [gpu.id for gpu in workers[name].gpus if gpu.available and gpu.memory >= task.min_gpu_memory]
        if len(free) >= task.required_gpus:
            return name, free[-task.required_gpus:]
    return None

def liar(workers, task):
    return "nobody", ["0"]
"""


def test_a_function_of_the_classic_form_is_a_placement(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CLASSIC)
    nodes = (Node("n0", (Gpu(),) * 4), Node("n1", (Gpu(),) * 4))
    jobs = [TraceJob(0.0, Job(name, 3, declared_s=10.0), 10.0) for name in "abc"]
    outcome = simulate(Setting(nodes, jobs, "fifo", f"{tmp_path}/mine.py:assign"))
    starts = [(f.job, f.slots) for f in outcome.journal.read() if isinstance(f, Start)]
    assert starts == [("a", (("n1", (1, 2, 3)),)), ("b", (("n0", (1, 2, 3)),)), ("c", (("n1", (1, 2, 3)),))]


def test_a_function_that_names_nobody(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CLASSIC)
    jobs = [TraceJob(0.0, Job("a", 1, declared_s=10.0), 10.0)]
    with pytest.raises(PlanError, match=r"liar returned 'nobody' and 1 GPUs for a task of 1 \(.*mine\.py:\d+\)"):
        simulate(Setting((Node("n0", (Gpu(),)),), jobs, "fifo", f"{tmp_path}/mine.py:liar"))
    with pytest.raises(InputError, match="is a function, not a policy"):
        registry.load_policy(f"{tmp_path}/mine.py:assign")
