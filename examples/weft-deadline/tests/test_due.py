"""Decisions of weft-deadline, on traces small enough to compute by hand."""

from __future__ import annotations

import pytest
from weft import WeftError
from weft.policy import (
    ClusterResources,
    Gpu,
    Job,
    Node,
    NodeJoined,
    Packed,
    Scheduler,
    Start,
    Started,
    Stop,
    Submitted,
    load_policy,
    plain_shape,
)
from weft.sim import Setting, TraceJob, simulate

from weft_deadline.apart import Apart
from weft_deadline.due import Due

ONE_GPU = Node("n0", (Gpu(),))


def job(id: str, declared_s: float, deadline_s: float | None = None) -> Job:
    params = () if deadline_s is None else (("deadline_s", str(deadline_s)),)
    return Job(id, declared_s=declared_s, params=params)


def ends(policy: str, *jobs: tuple[float, Job]) -> dict[str, float | None]:
    """Return when each job ends on one GPU; jobs without a profile start at no cost."""
    trace = [TraceJob(submit_s, each, each.declared_s or 0.0) for submit_s, each in jobs]
    setting = Setting([ONE_GPU], trace, policy, checkpoint_interval_s=0)
    return {id: found.ended_at for id, found in simulate(setting).state.jobs.items()}


def test_the_earlier_deadline_takes_the_gpu() -> None:
    scheduler = Scheduler(Due(), Packed())
    scheduler.step(NodeJoined(0, ONE_GPU))
    assert scheduler.step(Submitted(0, job("slow", 100))) == [Start(0, "slow", 1, (("n0", (0,)),))]
    scheduler.step(Started(0, "slow", 1))
    assert scheduler.step(Submitted(10, job("late", 100))) == []
    assert scheduler.step(Submitted(20, job("soon", 10))) == [Stop(20, "slow", 1, "preempted")]


def test_runs_by_deadline() -> None:
    # slow is due at 300, after_release at 20 + 3 x 10: after_release takes the GPU from 20 to 30.
    assert ends("due", (0, job("slow", 100)), (20, job("soon", 10))) == {"slow": 110, "soon": 30}


def test_a_named_deadline_counts_from_submission() -> None:
    # after_release may take 500 s: slow, due at 300, keeps its GPU.
    assert ends("due", (0, job("slow", 100)), (20, job("soon", 10, 500))) == {"slow": 100, "soon": 110}


def test_slack_is_an_option() -> None:
    jobs = (0, job("slow", 100)), (90, job("soon", 40))
    assert ends("due:slack=1", *jobs) == {"slow": 100, "soon": 140}  # due at 100 and 130
    assert ends("due:slack=3", *jobs) == {"slow": 140, "soon": 130}  # due at 300 and 210
    with pytest.raises(WeftError, match="slack must be at least 1"):
        load_policy("due:slack=0.5")


def test_rescue_lets_a_hopeless_job_wait() -> None:
    # At 60, lost (due at 70) needs until 160; sure is due at 150. due runs lost first, and both are late.
    jobs = (0, job("first", 60, 60)), (1, job("lost", 100, 69)), (2, job("sure", 50, 148))
    assert ends("due", *jobs) == {"first": 60, "lost": 160, "sure": 210}
    assert ends("due-rescue", *jobs) == {"first": 60, "sure": 110, "lost": 210}


def test_apart_puts_small_jobs_on_the_last_node() -> None:
    floor = ClusterResources()
    for node in range(3):
        floor.join(Node(f"n{node}", (Gpu(),) * 8))
    assert Apart().place(plain_shape(1), floor.idle) == ((2, 1),)
    assert Apart().place(plain_shape(2), floor.idle) == ((0, 2),)
    assert Apart(small=4).place(plain_shape(2), floor.idle) == ((2, 2),)
