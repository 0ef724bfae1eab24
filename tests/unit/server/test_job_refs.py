"""References to jobs: ids, names, ranges and @."""

from __future__ import annotations

import time

from weft.core.state.state import State
from weft.model import Job, Submitted
from weft.server.jobs.job_refs import resolve


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
