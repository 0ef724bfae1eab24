"""A job's work in the interface of policies, and the wake-up of a replanner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from support.builders import Rig, grid
from weft.model import Exited, Job, Planned, Profile, Progressed, Seconds
from weft.scheduling.core.planning.view import USUAL_LOSS_S
from weft.scheduling.core.ports import Ask, JobView, Replanner, View
from weft.scheduling.core.state.apply.snapshots import snapshot
from weft.scheduling.core.state.state import State


@dataclass(frozen=True)
class Every(Replanner):
    """Asks for the first job, and plans again after a minute."""

    preempts = True

    def key(self, job: JobView, now: Seconds) -> float:
        return float(job.seq)

    def rank(self, view: View) -> Iterable[Ask]:
        return [Ask((job.id,), job.gpus) for _, job in list(view.in_order())[:1]]

    def wake_at(self, view: View) -> Seconds | None:
        return view.now + 60


def rig_with(job: Job) -> Rig:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(job)
    rig.begin("a", rate=0.5)
    return rig


def test_work_is_counted_alone_at_the_rate_of_the_run() -> None:
    rig = rig_with(Job("a", 1, declared_s=100))
    assert rig.job("a").worked(40) == 20
    rig.later(40)
    rig.progress("a", 80, rate=0.25)
    assert rig.job("a").worked(80) == 30
    assert rig.job("a").attained(80) == 80


def test_lost_work_does_not_count() -> None:
    rig = rig_with(Job("a", 1, declared_s=100))
    rig.later(40)
    rig.tell(Exited(40, "a", 1, "lost", remaining_s=95))
    assert rig.job("a").worked(50) == 5


def test_work_counts_without_a_length_and_beyond_the_declared_one() -> None:
    bare = rig_with(Job("a", 1))
    bare.later(40)
    bare.tell(Progressed(40, "a", 1, None, 1.0))
    assert bare.job("a").worked(50) == 30
    overdue = rig_with(Job("a", 1, declared_s=10))
    overdue.later(40)
    overdue.progress("a", 1)
    assert overdue.job("a").worked(40) == pytest.approx(20, abs=1)


def test_a_snapshot_keeps_the_work() -> None:
    rig = rig_with(Job("a", 1, declared_s=100))
    rig.later(40)
    rig.progress("a", 80, rate=1.0)
    twin = State()
    for fact in list(snapshot(rig.state)):
        twin.apply(fact)
    assert twin.jobs["a"].worked(45) == rig.job("a").worked(45) == 25


def test_a_restart_costs_the_start_up_and_the_work_since_the_last_checkpoint() -> None:
    each = Profile("m", 1.0, 0.2, 0.6, 0.2, start_s=12.0)
    rig = Rig(Every(), grid(1, 1))
    rig.submit(Job("a", 1, declared_s=10_000, profile=each))
    rig.begin("a")
    rig.now = 50.0
    view = rig.scheduler.planner.context.view
    rig.progress("a", 9950)
    assert view().restart_cost_s(rig.job("a")) == 12 + 50
    rig.now = 5000.0
    rig.progress("a", 5000)
    assert view().restart_cost_s(rig.job("a")) == 12 + USUAL_LOSS_S
    assert not view().restarts_all


def test_the_expected_length_comes_from_similar_jobs() -> None:
    rig = Rig(Every(), grid(1, 1))
    rig.submit(Job("a", 1, name="bert-1", user="ada"))
    rig.begin("a")
    rig.now = 100.0
    rig.exit("a")
    rig.submit(Job("b", 1, name="bert-2", user="ada"), Job("c", 1, user="bo"))
    view = rig.scheduler.planner.context.view()
    assert view.expected_left_s(rig.job("b")) == 100
    assert view.expected_left_s(rig.job("c")) == float("inf")


def test_a_replanner_wakes_itself_while_there_are_jobs() -> None:
    rig = Rig(Every(), grid(1, 1))
    rig.submit(Job("a", 1, declared_s=1000))
    rig.begin("a")
    decisions = rig.later(200)
    assert [each.at for each in decisions if isinstance(each, Planned)] == [60, 120, 180]
    rig.exit("a")
    assert rig.alarm is None
