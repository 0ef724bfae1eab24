"""References to jobs: ids, names, ranges and @."""

from __future__ import annotations

import time

import pytest

from weft.errors import InputError
from weft.model import Job, Submitted, Task
from weft.scheduling.core.state.state import State
from weft.server.jobs.job_refs import resolve, resolve_to_change


def test_a_range_is_all_of_these_numbers_arrays_too_by_number() -> None:
    state = State()
    for at, job in enumerate(["12", "9", "10_1", "10_0", "11_0", "110", "8"]):
        state.apply(Submitted(float(at), Job(job)))
    assert resolve(state, ["9-11"]) == ["9", "10_1", "10_0", "11_0"]


def test_a_range_with_many_numbers_that_are_not_there_is_found_at_once() -> None:
    state = State()
    for number in range(1, 5001):
        state.apply(Submitted(0.0, Job(str(number))))
    began = time.process_time()
    assert resolve(state, ["4999-90000"]) == ["4999", "5000"]
    assert time.process_time() - began < 10.0  # a look at every job for each number takes 20 s


def crowd(count: int) -> State:
    """Return a state with jobs of a hundred names in seven groups."""
    state = State()
    for number in range(1, count + 1):
        group = Task(group=f"group-{number % 7}")
        state.apply(Submitted(0.0, Job(str(number), name=f"task-{number % 100}", user="ann", task=group)))
    return state


def test_ten_thousand_references_cost_little_more_than_one() -> None:
    state = crowd(3000)
    kinds = [
        [f"{first}-{first + 20_000}" for first in range(1, 10_001)],
        [f"@~{back}" for back in range(3000)],
        [f"group-{number % 7}/task-{number % 100}" for number in range(10_000)],
    ]
    for refs in kinds:
        began = time.process_time()
        assert sorted(resolve_to_change(state, refs, "ann"), key=int) == [str(number) for number in range(1, 3001)]
        assert time.process_time() - began < 2.0  # a look at every job for each reference takes a minute


def test_ranges_that_overlap_are_one_in_the_place_of_the_first() -> None:
    state = crowd(30)
    assert resolve(state, ["20-21", "5-7", "1", "7-9", "6-8"]) == ["20", "21", "5", "6", "7", "8", "9", "1"]


def test_many_ranges_apart_are_refused() -> None:
    state = crowd(30)
    with pytest.raises(InputError, match="1,001 ranges of jobs; at most 1,000"):
        resolve(state, [f"{3 * number}-{3 * number + 1}" for number in range(1001)])
