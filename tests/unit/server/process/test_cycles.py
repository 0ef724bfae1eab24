"""Cycles among the jobs of one request: found, and named from the first job on."""

from __future__ import annotations

import itertools
import random

from weft.server.jobs.dependencies import sort_by_dependencies
from weft.server.process.slices import at_once


def find_cycle(after: dict[int, set[int]]) -> list[int]:
    count = 1 + max((max(at, *others) for at, others in after.items() if others), default=0)
    return list(at_once(sort_by_dependencies(after, count)).cycle)


def test_a_cycle_starts_with_its_first_job_and_follows_the_dependencies() -> None:
    assert find_cycle({0: {2}, 1: {0}, 2: {1}}) == [0, 2, 1, 0]
    assert find_cycle({3: {3}}) == [3, 3]
    assert find_cycle({0: {1}, 1: {2}, 2: {1}}) == [1, 2, 1]


def test_jobs_in_order_have_no_cycle() -> None:
    assert find_cycle({}) == []
    assert find_cycle({at: {at - 1} for at in range(1, 50_000)}) == []


def test_each_job_of_a_cycle_comes_after_the_next() -> None:
    chance = random.Random(7)
    found = 0
    for _ in range(300):
        size = chance.randrange(1, 12)
        after = {at: {chance.randrange(size) for _ in range(chance.randrange(3))} for at in range(size)}
        cycle = find_cycle(after)
        assert all(later in after[job] for job, later in itertools.pairwise(cycle))
        if cycle:
            found += 1
            assert cycle[0] == cycle[-1] == min(cycle)
            assert len(set(cycle)) == len(cycle) - 1
    assert 50 < found < 300
