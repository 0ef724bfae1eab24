"""From a request to jobs."""

from __future__ import annotations

import time

import pytest

from weft.access.jobspec.fields import Field
from weft.errors import WeftError
from weft.server.jobs.dependencies import sort_by_dependencies
from weft.server.jobs.edit import _descriptor
from weft.server.process.slices import at_once


def test_a_field_that_the_protocol_lacks_says_what_to_run() -> None:
    with pytest.raises(WeftError, match=r"no field 'colour': add it to JobSpec in weft\.proto, then run make proto"):
        _descriptor(Field("colour", ("red", "blue"), None))


def test_each_job_follows_those_that_it_depends_on() -> None:
    assert list(at_once(sort_by_dependencies({2: {0}, 1: {0}}, 4)).order) == [0, 1, 2, 3], "none comes too early"
    assert list(at_once(sort_by_dependencies({0: {2}, 2: {3}}, 4)).order) == [1, 3, 2, 0]


def test_a_long_chain_is_looked_through_once() -> None:
    chain = {at: {at + 1} for at in range(100_000)}
    began = time.process_time()
    assert list(at_once(sort_by_dependencies(chain, 100_001)).order) == [*reversed(range(100_001))]
    found = at_once(sort_by_dependencies({**chain, 100_000: {99_999}}, 100_001))
    assert list(found.cycle) == [99_999, 100_000, 99_999]
    assert time.process_time() - began < 20.0, "looking through it again for each would take minutes"
