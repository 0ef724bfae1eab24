"""Latencies and weaves of a cell, from facts."""

from __future__ import annotations

from weft.lab.testbed.measures import latencies, weave_sizes
from weft.model import Exited, Fact, Start, Started, Stop

SLOTS = (("n0", (0,)),)


def test_latencies_count_from_the_decision_to_its_effect() -> None:
    facts: list[Fact] = [
        Start(1.0, "a", 1, SLOTS), Started(1.02, "a", 1), Stop(2.0, "a", 1, "preempted"),
        Exited(2.05, "a", 1, "stopped"), Start(3.0, "a", 2, SLOTS), Started(3.04, "a", 2),
        Exited(9.0, "a", 2, "done"), Start(9.0, "b", 1, SLOTS),
    ]  # fmt: skip
    found = latencies(facts)
    assert (found["start"].count, found["start"].p50_ms, found["start"].p90_ms) == (2, 20.0, 40.0)
    assert (found["stop"].count, found["stop"].p50_ms) == (1, 50.0)
    assert latencies([])["stop"].p50_ms is None


def test_starts_are_counted_by_the_size_of_their_weave() -> None:
    facts = [
        Start(0.0, "a", 1, SLOTS),
        Start(1.0, "b", 1, SLOTS, weave=("b", "c")),
        Start(1.0, "c", 1, SLOTS, weave=("b", "c")),
    ]
    assert weave_sizes(facts) == {1: 1, 2: 2}
