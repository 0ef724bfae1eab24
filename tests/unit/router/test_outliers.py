"""Ejection of replicas that fail: after how many errors, for how long, and how many at once."""

from __future__ import annotations

import random

import pytest

from weft.router.rules.dispatch import Dispatcher, ReplicaLoad, ReplicaPlan
from weft.router.rules.outliers import EJECTION_S, ERRORS_IN_ROW, MAX_EJECTION_S


def dispatcher(names: str) -> tuple[Dispatcher[int], list[ReplicaLoad]]:
    found: Dispatcher[int] = Dispatcher(random.Random(1).random, 10)
    found.update([ReplicaPlan(name, concurrency=100) for name in names])
    return found, list(found.replicas.values())


def fail(found: Dispatcher[int], replica: ReplicaLoad, errors: int = ERRORS_IN_ROW, now_s: float = 0.0) -> None:
    for _ in range(errors):
        replica.health.note_answer(500)
        found.judge(replica, now_s)


def takers(found: Dispatcher[int]) -> set[str]:
    """Return the replicas that get requests."""
    replicas = [found.arrive(number) for number in range(40)]
    for replica in replicas:
        assert replica is not None
        found.release(replica)
    return {replica.name for replica in replicas if replica is not None}


def test_a_good_answer_ends_a_row_of_errors() -> None:
    found, (a, _) = dispatcher("ab")
    fail(found, a, ERRORS_IN_ROW - 1)
    a.health.note_answer(404)
    fail(found, a, ERRORS_IN_ROW - 1)
    for _ in range(ERRORS_IN_ROW):
        a.health.note_answer(501)
        found.judge(a, 0.0)
    assert takers(found) == {"a", "b"}, "a client can ask for any method"
    fail(found, a, 1)
    assert takers(found) == {"b"}


def test_requests_that_fail_together_count_once() -> None:
    found, (a, _) = dispatcher("ab")
    for failure in range(1, 3):
        for _ in range(ERRORS_IN_ROW):
            a.health.note_failure()
            found.suspect(a)
            found.judge(a, 0.0)
        found.clear(a)
        assert a.health.in_row == failure
        assert a.health.failures == failure * ERRORS_IN_ROW
        assert takers(found) == {"a", "b"}


def test_each_ejection_takes_longer_and_one_error_is_enough_for_the_next() -> None:
    found, (a, _) = dispatcher("ab")
    fail(found, a)
    now_s = 0.0
    for ejection in (1, 2, 3):
        found.end_ejections(now_s + ejection * EJECTION_S - 0.1)
        assert takers(found) == {"b"}
        now_s += ejection * EJECTION_S
        found.end_ejections(now_s)
        assert takers(found) == {"a", "b"}
        fail(found, a, 1, now_s)
    a.health.note_answer(200)
    found.end_ejections(now_s + 4 * EJECTION_S)
    fail(found, a, now_s=now_s + 4 * EJECTION_S + MAX_EJECTION_S)
    assert a.health.ejections == 1, "it has been well for long"


@pytest.mark.parametrize(("names", "most"), [("a", 0), ("ab", 1), ("abc", 1), ("abcd", 2)])
def test_at_most_half_of_the_replicas_are_ejected(names: str, most: int) -> None:
    found, replicas = dispatcher(names)
    for replica in replicas:
        fail(found, replica, 3 * ERRORS_IN_ROW)
    assert len(takers(found)) == len(names) - most


def test_ejected_replicas_return_if_no_other_is_left_and_suspect_ones_do_not() -> None:
    found, (a, b, c, _) = dispatcher("abcd")
    fail(found, a)
    fail(found, b)
    found.suspect(c)
    assert takers(found) == {"d"}
    found.update([ReplicaPlan(name, 100, draining=name == "d") for name in "abcd"])
    assert takers(found) == {"a", "b"}
    found.suspect(a)
    found.suspect(b)
    assert found.arrive(1) is None, "requests wait for a replica that answers a probe"
    found.clear(b)
    assert [replica.name for _, replica in found.assignments()] == ["b"]
