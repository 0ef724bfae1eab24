"""The order that is kept as facts come in is the order of the keys, whatever came in."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest

from support.builders import Rig, grid, node, starts
from weft.model import Cancelled, Event, Exited, Job, PerRank, Profile, Purged, Started, Submitted
from weft.scheduling.core.ports import JobView, Policy
from weft.scheduling.core.queue.lines import Lines
from weft.scheduling.core.queue.order import KEY_ROUNDING
from weft.scheduling.core.state.job import JobState
from weft.scheduling.policies.las import Las
from weft.scheduling.policies.srsf import Srsf
from weft.scheduling.policies.srtf import Srtf
from weft.scheduling.policies.tiresias import Tiresias

KEYED = ["fifo", "sjf", "srtf", "srsf", "las", "tiresias"]


def jobs(count: int, seed: int) -> list[Job]:
    draws = random.Random(seed)
    return [Job(f"j{n}", draws.choice([0, 1, 1, 2, 4, 8, 11]), declared_s=float(draws.randint(1, 50)),
                memory_mb=PerRank(draws.choice([0, 0, 8])), retries=1) for n in range(count)]  # fmt: skip


def happenings(rig: Rig, twin: Rig, seed: int) -> None:
    """The same at random to both, who must decide the same."""
    draws, todo = random.Random(seed), jobs(150, seed)
    while todo or rig.state.active:
        now = rig.now = twin.now = rig.now + draws.randint(0, 9)
        events: list[Event] = [Submitted(now, todo.pop()) for _ in range(min(draws.choice([0, 1, 3, 40]), len(todo)))]
        for job in rig.state.active.values():
            if job.status == "starting":
                events.append(Started(now, job.id, job.run, draws.choice([0.5, 1.0])))
            elif job.status == "stopping":
                events.append(Exited(now, job.id, job.run, "stopped"))
            elif draws.random() < 0.3:
                events.append(Exited(now, job.id, job.run, draws.choice(["done", "failed"])))
        assert rig.tell(*events) == twin.tell(*events)


@pytest.mark.parametrize("policy", KEYED)
@pytest.mark.parametrize("seed", range(3))
def test_the_kept_order_decides_as_sorting_anew_does(policy: str, seed: int) -> None:
    nodes = grid(3, 8)
    happenings(Rig(policy, nodes), Rig(policy, nodes, resort=True), seed)


def walked(rig: Rig) -> list[str]:
    """Return the waiting jobs, in the order in which they start once there is room for all."""
    return list(starts(rig.join(node("large", 1000))))


@pytest.mark.parametrize("burst", [1, 63, 200])
def test_a_burst_is_sorted_like_one_after_the_other(burst: int) -> None:
    """By their keys, equals as they came."""
    together, singly = Rig("srtf", grid(1, 1)), Rig("srtf", grid(1, 1))
    many = [Job(f"j{n}", 2 + n % 3, declared_s=float(n * 7919 % 10)) for n in range(burst)]
    together.submit(*many)
    for each in many:
        singly.submit(each)
    expected = [job.id for job in sorted(many, key=lambda job: (job.declared_s or 0, int(job.id[1:])))]
    assert walked(together) == walked(singly) == expected


def test_a_burst_after_others_is_merged() -> None:
    rig = Rig("srtf", grid(1, 1))
    rig.submit(*(Job(f"a{n}", 2, declared_s=float(10 * n)) for n in range(100)))
    rig.submit(*(Job(f"b{n}", 2, declared_s=float(10 * n + 5)) for n in range(100)))
    assert walked(rig) == [f"{x}{n}" for n in range(100) for x in "ab"]


def running(rate: float = 1.0, gpus: int = 2, **rest: Any) -> JobState:
    rig = Rig("fifo", grid(1, 8))
    rig.submit(Job("a", gpus, declared_s=1000.0, profile=Profile("m", 1.0, 0.2, 0.6, 0.2), **rest))
    rig.now = 3.0
    rig.begin("a", rate=rate)
    return rig.job("a")


@pytest.mark.parametrize("policy", [Srtf(), Srsf(), Las()])
@pytest.mark.parametrize("rate", [0.25, 1.0])
@pytest.mark.parametrize("dt", [0.0, 1.0, 100.0])
def test_a_key_moves_along_its_slope(policy: Policy, rate: float, dt: float) -> None:
    job, now = running(rate), 10.0
    assert policy.key(job, now + dt) == pytest.approx(policy.key(job, now) + policy.slope(job) * dt)


@pytest.mark.parametrize("policy", [Srtf(), Srsf(), Las()])
def test_a_key_stands_still_while_its_job_waits(policy: Policy) -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(Job("a", 2, declared_s=1000.0))
    job = rig.job("a")
    assert policy.slope(job) == 0
    assert policy.key(job, 5.0) == policy.key(job, 500.0)


@pytest.mark.parametrize(("gpus", "first", "second"), [(1, 3250, 7200), (2, 1625, 3600), (8, 407, 900)])
def test_a_stepped_key_steps_when_it_says(gpus: int, first: int, second: int) -> None:
    """3250 / 8 = 406.25: whole seconds, as the original."""
    job, policy = running(gpus=gpus), Tiresias()
    for at, queue in ((first, 0.0), (second, 1.0)):
        job.key = queue
        assert policy.key(job, at - 1) == queue
        assert policy.until(job, at - 1.0) == at
        assert policy.key(job, at) == queue + 1
    job.key = 2.0
    assert policy.until(job, second) is None


@pytest.mark.parametrize("purged", [False, True])
def test_a_job_submitted_again_under_its_id_waits_once(purged: bool) -> None:
    rig = Rig("srtf", grid(1, 1))
    rig.submit(Job("a", 2, declared_s=5.0), Job("b", 2, declared_s=7.0))
    gone: list[Event] = [Purged(rig.now, ("a",))] if purged else []
    rig.tell(Cancelled(rig.now, "a"), *gone, Submitted(rig.now, Job("a", 2, declared_s=9.0)))
    assert walked(rig) == ["b", "a"]


def test_a_step_goes_off_by_itself() -> None:
    rig = Rig("tiresias:thresholds=10+20", grid(1, 1))
    rig.submit(Job("a"))
    rig.settle()
    assert rig.alarm == 10.0
    rig.later(10.0)
    assert (rig.job("a").key, rig.alarm) == (1.0, 20.0)
    rig.exit("a")
    assert rig.alarm is None


@pytest.mark.parametrize("resort", [False, True])
def test_a_step_that_is_due_is_not_put_off_by_news(resort: bool) -> None:
    """Two GPUs reach 7 GPU-seconds after 3.5 s, and the step falls on the whole second, 4; news comes in between."""
    rig = Rig("tiresias:thresholds=7+15", grid(1, 2), resort=resort)
    rig.submit(Job("a", 2, declared_s=34.0))
    rig.settle()
    assert rig.alarm == 4.0
    rig.now = 3.5
    rig.progress("a", 30.5)
    assert rig.alarm == 4.0
    rig.later(0.5)
    assert rig.job("a").key == 1.0


def test_who_may_be_stopped_among_equals_is_found_without_looking_at_them_all() -> None:
    """Tiresias: in the first queue all stand alike, and only those may be stopped that came after."""
    rig = Rig("tiresias", grid(4, 8))
    rig.submit(*(Job(f"j{n}", 1) for n in range(32)))
    rig.settle()
    order, now = rig.scheduler.order, rig.now
    assert not order.has_worse_run(now, 0.0, rig.job("j31").tie_breaker + 1)
    assert [job.id for job in order.worst(now, (0.0, rig.job("j29").tie_breaker))] == ["j31", "j30"]
    assert order.has_worse_run(now, -1.0, 0)
    assert [job.id for job in order.worst(now, (-1.0, 0))] == [f"j{n}" for n in reversed(range(32))]


@dataclass(frozen=True)
class NearlyEqual(Policy):
    """Keys that differ by less or by more than rounding."""

    preempts = True

    def key(self, job: JobView, now: float) -> float:
        return job.job.priority * 1e-7


@pytest.mark.parametrize("seed", range(5))
def test_keys_that_differ_by_rounding_are_equal(seed: int) -> None:
    draws = random.Random(seed)
    rig = Rig(NearlyEqual(), grid(4, 8))
    rig.submit(*(Job(f"j{n}", 1, priority=draws.randint(-30, 30)) for n in range(32)))
    rig.settle()
    order, now = rig.scheduler.order, rig.now
    runs = [(order.key(job, now), job.tie_breaker) for job in rig.state.active.values()]
    for _ in range(500):
        key, tie = draws.randint(-45, 45) * 1e-7, draws.choice(runs)[1] + draws.choice([-1, 0, 1])
        worse = any(own > key + KEY_ROUNDING or (own >= key - KEY_ROUNDING and last > tie) for own, last in runs)
        assert order.has_worse_run(now, key, tie) == worse
        assert any(True for _ in order.worst(now, (key, tie))) == worse


@pytest.mark.parametrize("seed", range(5))
def test_keys_that_grow_and_differ_by_rounding_are_equal(seed: int) -> None:
    """Also late, and where sums of large numbers are not exact."""
    draws, order = random.Random(seed), Rig("fifo", grid(1, 1)).scheduler.order
    job = JobState(Job("x"), 1, 0.0)
    for _ in range(2000):
        scale, now = draws.choice([1.0, 1e6, 1e10]), draws.random() * draws.choice([1.0, 1e6, 1e8])
        key = draws.random() * scale
        order._lines = {}
        for slope in draws.sample([0.0, 0.5, 1.0, 512.0], 2):
            keys = [key + draws.choice([-2, -1, -0.5, 0, 0.5, 1, 2]) * KEY_ROUNDING for _ in range(3)]
            lines = sorted((own - slope * now, draws.randint(0, 9), at) for at, own in enumerate(keys))
            order._lines[slope] = Lines((intercept, tie, job) for intercept, tie, _ in lines)
        tie = draws.randint(0, 9)
        runs = [(line[0] + slope * now, line[1]) for slope, lines in order._lines.items() for line in lines]
        worse = any(own > key + KEY_ROUNDING or (own >= key - KEY_ROUNDING and last > tie) for own, last in runs)
        assert order.has_worse_run(now, key, tie) == worse


@pytest.mark.parametrize(
    ("slope", "intercept", "now", "key"),
    [
        (512.0, -10869126072.504923, 106825155.00684564, 43825353291.000046),
        (1.0, -213381.779, 514584.23699999996, 301202.458001),
    ],
)
def test_a_key_at_the_very_edge_of_rounding_is_equal(slope: float, intercept: float, now: float, key: float) -> None:
    order = Rig("fifo", grid(1, 1)).scheduler.order
    order._lines = {slope: Lines([(intercept, 1, JobState(Job("x"), 1, 0.0))])}
    assert not order.has_worse_run(now, key, 5)
    assert order.has_worse_run(now, key, 0)
