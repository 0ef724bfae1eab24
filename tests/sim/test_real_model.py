"""The costs of a run in the real model: starts, checkpoints, distance, weaves."""

from __future__ import annotations

import pytest

from support.builders import Recording, grid, node, profile, record, traced
from weft.model import Node, Start, Started, Stop
from weft.sim.simulation import Model

STARTS = profile(0.25, 0.5, 0.25, start=5)
PREEMPTED = [traced("a", 0, 1000, profile=STARTS), traced("b", 755, 100, profile=STARTS)]
"""At 755 a has worked 750 s of 1000, and b, the shorter, stops it until 755 + 5 + 100 = 860."""


def worked_from(recording: Recording, id: str) -> list[tuple[float, float]]:
    """When each run was started, and when it began to work."""
    starts = [fact.at for fact in recording.facts if isinstance(fact, Start) and fact.job == id]
    works = [fact.at for fact in recording.facts if isinstance(fact, Started) and fact.job == id]
    return list(zip(starts, works, strict=True))


def test_every_start_costs_its_start_up_time() -> None:
    done = record(grid(1, 1), PREEMPTED, "srtf", checkpoint_interval_s=0)
    assert worked_from(done, "a") == [(0, 5), (860, 865)]
    assert worked_from(done, "b") == [(755, 760)]


@pytest.mark.parametrize(
    ("interval_s", "lost_s"),
    [
        (0, 0),  # every second is saved
        (600, 150),  # the last checkpoint was at 600 of 750
        (250, 0),  # the last one just now
        (400, 350),
        (1000, 750),  # none yet
    ],
)
def test_a_stop_loses_the_work_since_the_last_checkpoint(interval_s: float, lost_s: float) -> None:
    done = record(grid(1, 1), PREEMPTED, "srtf", checkpoint_interval_s=interval_s)
    left = 250 + lost_s
    assert done.ends() == {"b": 860, "a": 860 + 5 + left}


def test_checkpoints_are_counted_from_the_last_one() -> None:
    """Checkpoints every 100 s. Stopped after 150 s of work, a keeps 100; stopped after another 130, it keeps 200."""
    jobs = [traced("a", 0, 1000), traced("b", 150, 10), traced("c", 290, 10)]
    done = record(grid(1, 1), jobs, "srtf", checkpoint_interval_s=100)
    assert done.ends() == {"b": 160, "c": 300, "a": 300 + 800}


def test_a_run_stopped_before_it_worked_has_lost_nothing_but_its_start() -> None:
    """b comes while a is loading: 3 + 5 + 10 = 18, then a from the beginning: 18 + 5 + 50 = 73."""
    jobs = [traced("a", 0, 50, profile=STARTS), traced("b", 3, 10, profile=STARTS)]
    assert record(grid(1, 1), jobs, "srtf").ends() == {"b": 18, "a": 73}


APART: dict[str, tuple[tuple[Node, ...], int, float]] = {
    "one node": (grid(2, 4), 4, 1.0),
    "two nodes": (grid(2, 4), 8, 1.17),
    "two switches": ((node("n0", 4, switch="s0"), node("n1", 4, switch="s1")), 8, 1.35),
}


@pytest.mark.parametrize(("nodes", "gpus", "factor"), APART.values(), ids=APART)
def test_a_gang_goes_slower_the_further_apart(nodes: tuple[Node, ...], gpus: int, factor: float) -> None:
    done = record(nodes, [traced("a", 0, 100, gpus=gpus, profile=STARTS)], "fifo")
    assert done.ends()["a"] == pytest.approx(5 + 100 * factor)


def test_members_of_a_weave_in_lock_step_go_at_its_pace() -> None:
    """Stages 4, 1, 1 and 1, 3, 1: T = 6 x 1.33/1.015, and every member does one iteration in that time. The other 10
    iterations of a go at its own 6 s."""
    a, b = profile(4, 1, 1), profile(1, 3, 1)
    jobs = [traced("a", 0, 20, profile=a), traced("b", 0, 10, profile=b)]
    done = record(grid(1, 1), jobs, "muri-s", order="slots")
    begin, cycle = done.first_starts()["b"], 6 * 1.33 / 1.015
    assert begin is not None
    assert done.first_starts()["a"] == begin
    assert done.ends()["b"] == pytest.approx(begin + 10 * cycle)
    assert done.ends()["a"] == pytest.approx(begin + 10 * cycle + 10 * 6)


def test_members_of_a_weave_by_tokens_have_rates_of_their_own() -> None:
    """Nothing keeps a (4, 1, 1) and b (1, 3, 1) apart for long: with the next batch loaded ahead, both go as alone."""
    jobs = [traced("a", 0, 20, profile=profile(4, 1, 1)), traced("b", 0, 10, profile=profile(1, 3, 1))]
    done = record(grid(1, 1), jobs, "muri-s")
    assert done.first_starts() == {"a": 0.0, "b": 0.0}
    assert done.ends() == {"a": 120.0, "b": 50.0}


@pytest.mark.parametrize("model", ["real", "muri"])
def test_contention_slows_members_by_tokens_down(model: Model) -> None:
    """Muri's factor for two is 1.33/1.015. Each of two jobs that load data all the time has a separate lane."""
    jobs = [traced(name, 0, 10, profile=profile(9, 1, 0)) for name in ("a", "b")]
    free = record(grid(1, 1), jobs, "muri-s", model=model, order="fair")
    slow = record(grid(1, 1), jobs, "muri-s", model=model, order="fair", contention="muri")
    assert free.ends() == {"a": 100.0, "b": 100.0}
    assert slow.ends()["a"] == pytest.approx(9 * 10 * 1.33 / 1.015, rel=0.03)


@pytest.mark.parametrize("policy", ["themis", "muri-s", "muri-l"])
def test_the_first_job_of_an_idle_cluster_starts_at_once(policy: str) -> None:
    """Planning now and then must not keep a job waiting for GPUs that no job has."""
    done = record(grid(1, 2), [traced("a", 0, 10), traced("b", 5, 10)], policy)
    assert done.first_starts() == {"a": 0, "b": 5}


@pytest.mark.parametrize("policy", ["fifo", "srtf", "las", "themis", "muri-s", "muri-l"])
def test_running_jobs_stay_where_they_are(policy: str) -> None:
    """When a leaves the first node, no job moves there."""
    jobs = [traced("a", 0, 400, gpus=4), traced("b", 1, 2000, gpus=4), traced("c", 2, 2000, gpus=4)]
    done = record(grid(3, 4), jobs, policy, placement="yarn")
    assert [fact for fact in done.facts if isinstance(fact, Stop)] == []
    assert [done.state.jobs[id].run for id in "abc"] == [1, 1, 1]
