"""From a request to jobs."""

from __future__ import annotations

import time

import pytest

from weft.errors import WeftError
from weft.jobspec.fields import Field
from weft.server.jobs.builder import _find_cycle
from weft.server.jobs.edit import _descriptor


def test_a_field_that_the_protocol_lacks_says_what_to_run() -> None:
    with pytest.raises(WeftError, match=r"no field 'colour': add it to JobSpec in weft\.proto, then run make proto"):
        _descriptor(Field("colour", ("red", "blue"), None))


def test_a_circle_is_found_and_given_in_order() -> None:
    assert _find_cycle({0: {1}, 1: {2}, 2: {1}}) == [1, 2, 1]
    assert _find_cycle({0: {0}}) == [0, 0]
    assert _find_cycle({0: {1, 2}, 1: {3}, 2: {3}}) == []


def test_a_long_chain_is_looked_through_once() -> None:
    chain = {at: {at + 1} for at in range(100_000)}
    began = time.process_time()
    assert _find_cycle(chain) == []
    assert _find_cycle({**chain, 100_000: {99_999}}) == [99_999, 100_000, 99_999]
    assert time.process_time() - began < 20.0, "looking through it again for each would take minutes"
