"""What holds for every placement that is registered."""

from __future__ import annotations

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from weft import registry
from weft.core.free import Free
from weft.core.shapes import plain_shape

PLACEMENTS = sorted(registry.names("weft.placements"))
SPLITS_ANYHOW = {"count"}
every_placement = pytest.mark.parametrize("name", PLACEMENTS)


def index(sizes: list[int], counts: list[int], switches: list[str]) -> Free:
    free = Free()
    for place, (size, count, switch) in enumerate(zip(sizes, counts, switches, strict=True)):
        free.add_node(size, switch)
        free.change(place, count)
    return free


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
    return registry.placement(name).place(plain_shape(gpus), free)


@every_placement
@given(wish=wishes(mixed))
def test_gives_exactly_what_was_asked_and_no_more_than_there_is(name: str, wish: tuple[Free, int]) -> None:
    free, gpus = wish
    parts = place(name, gpus, free)
    if parts is None:
        return
    assert sum(count for _, count in parts) == gpus
    assert len({node for node, _ in parts}) == len(parts)
    assert all(0 < count <= free.count[node] for node, count in parts)


@every_placement
@given(wish=wishes(mixed))
def test_finds_a_node_that_can_hold_it(name: str, wish: tuple[Free, int]) -> None:
    free, gpus = wish
    parts = place(name, gpus, free)
    if any(count >= gpus for count in free.count):
        assert parts is not None
        assert name in SPLITS_ANYHOW or len(parts) == 1


@pytest.mark.parametrize("name", sorted(set(PLACEMENTS) - SPLITS_ANYHOW))
@given(wish=wishes(mixed))
def test_splits_a_gang_only_where_no_node_could_hold_it(name: str, wish: tuple[Free, int]) -> None:
    free, gpus = wish
    parts = place(name, gpus, free)
    if parts is not None and gpus <= max(free.size):
        assert len(parts) == 1


@every_placement
@given(wish=wishes(alike))
def test_what_does_not_fit_fits_no_larger_on_equal_nodes(name: str, wish: tuple[Free, int]) -> None:
    free, gpus = wish
    if place(name, gpus, free) is None and gpus != free.largest():
        assert place(name, gpus + 1, free) is None


@every_placement
@given(wish=wishes(mixed))
def test_what_does_not_fit_fits_no_larger_on_unequal_nodes(name: str, wish: tuple[Free, int]) -> None:
    """Only a gang that no node could hold may be split, and so fit where one less did not."""
    free, gpus = wish
    if place(name, gpus, free) is None and gpus < free.largest():
        assert place(name, gpus + 1, free) is None


@every_placement
@given(wish=wishes(mixed))
def test_leaves_the_index_as_it_was(name: str, wish: tuple[Free, int]) -> None:
    free, gpus = wish
    before = (list(free.count), list(free.levels), free.mask)
    place(name, gpus, free)
    assert (list(free.count), list(free.levels), free.mask) == before


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
