"""The rule of probes: when a replica counts as ready, and when as broken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.model import Health
from weft.node.agent.replicas.health import MAX_START_WAIT_S, ReplicaHealth

HEALTH = Health("/health", 10.0, 5.0, 3)


def test_the_first_answer_makes_a_replica_ready() -> None:
    state = ReplicaHealth(HEALTH, 0.0)
    assert state.observe(1.0, False) is None
    assert state.observe(2.0, True) == ("ready", "")
    assert state.observe(3.0, True) is None


def test_a_replica_that_is_not_ready_in_time_is_broken() -> None:
    state = ReplicaHealth(HEALTH, 0.0)
    assert state.observe(9.9, False) is None
    change = state.observe(10.0, False)
    assert change is not None
    assert change[0] == "unready"
    assert "did not answer within 10 s" in change[1]
    assert state.observe(11.0, True) is None, "its run is stopped by then"


def test_probes_that_fail_in_a_row_break_a_ready_replica() -> None:
    state = ReplicaHealth(HEALTH, 0.0)
    state.observe(1.0, True)
    assert [state.observe(2.0 + at, False) for at in range(2)] == [None, None]
    assert state.observe(4.0, True) is None
    assert [state.observe(5.0 + at, False) for at in range(2)] == [None, None]
    assert state.observe(7.0, False) == ("unready", "3 probes of /health failed in a row")


@given(st.lists(st.booleans(), max_size=40))
def test_a_replica_changes_at_most_twice_and_is_probed_often_enough(answers: list[bool]) -> None:
    state, now, changes = ReplicaHealth(HEALTH, 0.0), 0.0, []
    for answered in answers:
        change = state.observe(now, answered)
        changes += [] if change is None else [change[0]]
        assert 0 < state.wait_s <= (HEALTH.every_s if state.ready else MAX_START_WAIT_S)
        now += state.wait_s
    assert changes in ([], ["ready"], ["unready"], ["ready", "unready"])
