"""Failures, repairs and crashes, as drawn."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean
from typing import Any

import pytest

from support.builders import grid
from weft.errors import InputError
from weft.model import NodeJoined, NodeLost
from weft.sim.faults.failures import Crashes, Faults
from weft.sim.faults.uncertainty import CERTAIN, Uncertainty

Log = list[tuple[float, str, bool]]


def log(nodes: int, seed: int, until: float, mtbf_s: float = 1000.0, repair_s: float = 100.0) -> Log:
    faults, found = Faults(grid(nodes, 1), seed, mtbf_s, repair_s), Log()
    while (now := faults.next_time()) <= until:
        for event in faults.happen(now):
            assert event.at == now
            if isinstance(event, NodeLost):
                found.append((now, event.node, False))
            else:
                assert isinstance(event, NodeJoined)
                found.append((now, event.node.id, True))
    return found


def test_without_nodes_nothing_happens() -> None:
    assert Faults().next_time() == float("inf")
    assert Faults().happen(1e9) == []


def test_a_seed_is_a_history() -> None:
    assert log(3, 1, 1e5) == log(3, 1, 1e5) != log(3, 2, 1e5)


def test_a_node_fails_alike_whatever_other_nodes_there_are() -> None:
    alone = log(1, 1, 1e5)
    assert [event for event in log(4, 1, 1e5) if event[1] == "n0"] == alone


def test_up_and_down_in_turn_for_as_long_as_asked() -> None:
    history = log(1, 7, 2e6)
    assert [up for *_, up in history] == [at % 2 == 1 for at in range(len(history))]
    times = [0.0, *(at for at, *_ in history)]
    gaps = [after - before for before, after in pairwise(times)]
    assert mean(gaps[::2]) == pytest.approx(1000, rel=0.1)
    assert mean(gaps[1::2]) == pytest.approx(100, rel=0.1)


def test_crashes_come_at_the_asked_rate_anywhere_in_the_work() -> None:
    crashes = Crashes(3, 0.25)
    left = [crashes.remaining_at_crash(f"j{n}", 1, 10.0) for n in range(4000)]
    hit = [each for each in left if each]
    assert len(hit) / 4000 == pytest.approx(0.25, abs=0.02)
    assert mean(hit) == pytest.approx(5, abs=0.3)
    assert 0 < min(hit) < 0.2
    assert 9.8 < max(hit) <= 10


def test_a_crash_depends_on_seed_job_and_run_only() -> None:
    crashes = Crashes(3, 0.5)
    drawn = [[crashes.remaining_at_crash(f"j{n}", run, 10.0) for n in range(50)] for run in (1, 2)]
    assert drawn[0] != drawn[1]
    assert drawn[0] == [Crashes(3, 0.5).remaining_at_crash(f"j{n}", 1, 10.0) for n in range(50)]
    assert drawn[0] != [Crashes(4, 0.5).remaining_at_crash(f"j{n}", 1, 10.0) for n in range(50)]
    assert Crashes(3, 0.0).remaining_at_crash("j0", 1, 10.0) == 0
    assert Crashes(3, 1.0).remaining_at_crash("j0", 1, 10.0) > 0


def test_only_what_is_unusual_is_said() -> None:
    assert CERTAIN.as_json() == {}
    assert Uncertainty(mtbf_s=60.0, crash_rate=0.1).as_json() == {"mtbf_s": 60.0, "crash_rate": 0.1}


@pytest.mark.parametrize(
    "wrong",
    [{"mtbf_s": 0.0}, {"mtbf_s": float("nan")}, {"repair_s": -1.0}, {"crash_rate": 1.1}, {"crash_rate": float("nan")},
     {"estimates": "wild"}],
)  # fmt: skip
def test_what_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        Uncertainty(**wrong)
    assert caught.value.hint
