"""One figure for all ranks, or one for each."""

from __future__ import annotations

import pickle

import pytest

from weft.model import PerRank


def test_one_figure_is_that_of_every_rank() -> None:
    memory = PerRank(10)
    assert (memory.of(0), memory.of(7), memory.max, memory.min) == (10, 10, 10, 10)
    assert (memory.each(3), memory.differs, memory.plain()) == ((10, 10, 10), False, 10)


def test_each_rank_may_have_its_own() -> None:
    memory = PerRank(10, 30, 20)
    assert (memory.of(1), memory.max, memory.min, memory.differs) == (30, 30, 10, True)
    assert (memory.each(3), memory.plain(), str(memory)) == ((10, 30, 20), [10, 30, 20], "10+30+20")


@pytest.mark.parametrize("value", [0, 7, [1, 2], [0, 0]])
def test_it_is_read_as_it_was_written_also_by_another_process(value: int | list[int]) -> None:
    memory = PerRank.parse(value)
    assert memory.plain() == value
    assert pickle.loads(pickle.dumps(memory)) == memory == PerRank.parse(memory.plain())
    assert bool(memory) == (value != 0)


def test_no_figure_is_one_of_zero() -> None:
    assert PerRank() == PerRank(0)
    assert not PerRank()
