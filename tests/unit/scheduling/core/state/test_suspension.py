"""Runs that a user suspends."""

from __future__ import annotations

from support.builders import Rig, grid
from weft.model import Continued, Job, NodeLost, Suspended
from weft.scheduling.core.state.apply.snapshots import snapshot


def running() -> Rig:
    rig = Rig("fifo", grid(1, 2))
    rig.submit(Job("a"), Job("b"), Job("c"))
    return rig


def test_a_suspended_run_keeps_its_gpus() -> None:
    rig = running()
    rig.tell(Suspended(1.0, "a", 1))
    assert (rig.job("a").suspended, rig.job("a").active, rig.job("c").status) == (True, True, "waiting")
    rig.tell(Continued(2.0, "a", 1))
    assert not rig.job("a").suspended


def test_orders_about_another_run_or_a_waiting_job_are_dropped() -> None:
    rig = running()
    rig.tell(Suspended(1.0, "a", 2), Suspended(1.0, "c", 0), Continued(1.0, "b", 1))
    assert [rig.job(name).suspended for name in "abc"] == [False] * 3


def test_the_next_run_is_not_suspended() -> None:
    rig = running()
    rig.tell(Suspended(1.0, "a", 1))
    rig.exit("a", "failed")
    assert (rig.job("a").status, rig.job("a").suspended) == ("failed", False)
    rig.tell(Suspended(2.0, "b", 1), NodeLost(3.0, "n0"))
    assert not rig.job("b").suspended


def test_a_snapshot_keeps_it() -> None:
    rig = running()
    rig.tell(Suspended(1.0, "a", 1))
    again = rig.fresh()
    again.replay(list(snapshot(rig.state)))
    assert [again.state.jobs[name].suspended for name in "ab"] == [True, False]
