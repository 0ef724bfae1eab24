"""Trials that reports take to rungs: holds, preemptions and releases, also after a restart from the facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from support.builders import Rig, grid
from weft.model import Event, Evicted, Held, Job, Released, Reported, Seconds, Stop, Task
from weft.scheduling.core.state.apply.snapshots import snapshot
from weft.scheduling.core.state.state import State
from weft.server.jobs.progress_report import Report
from weft.server.jobs.trials import EarlyStopping, kept_report


class Played:
    """A sweep of trials named a, b, c ... on as many GPUs."""

    def __init__(self, rule: str, count: int) -> None:
        self.rig = Rig("fifo", grid(1, count))
        self.posted: list[Callable[[Seconds], Sequence[Event]]] = []
        self.stopping = EarlyStopping(lambda: self.rig.state, self.posted.append)
        names = "abcdefgh"[:count]
        task = Task(sweep="s", early_stop=rule)
        self.rig.submit(*(Job(name, user="ann", task=task) for name in names))
        self.rig.begin(*names)

    def tell(self, *events: Event) -> None:
        decisions = self.rig.tell(*events) if events else []
        self.stopping.receive(events, decisions)
        for stop in [each for each in decisions if isinstance(each, Stop)]:
            self.rig.exit(stop.job, "stopped")
        while self.posted:
            self.tell(*self.posted.pop(0)(self.rig.now))

    def report(self, job: str, step: int, loss: float, total: int = 100) -> list[type]:
        """Return what follows from a report of a trial."""
        self.rig.now += 1.0
        found = Report(0.0, first_step=0, step=step, total=total, metrics={"loss": loss})
        running = self.rig.job(job)
        reaches, events = self.stopping.reaches(running, found), self.stopping.arrive(running, found, self.rig.now)
        assert reaches == bool(events)
        self.tell(*events)
        return [type(event) for event in events]

    def statuses(self) -> str:
        return " ".join(job.status for job in self.rig.state.jobs.values())


def test_a_trial_at_a_rung_is_compared_and_preempted() -> None:
    sweep = Played("asha loss min 10 2", 3)
    assert sweep.report("a", 5, 1.0) == []
    assert sweep.report("a", 10, 1.0) == [Reported]
    assert sweep.report("a", 11, 1.0) == [], "each rung counts once"
    assert sweep.report("b", 12, 2.0) == [Reported, Held, Evicted]
    assert sweep.statuses() == "running held running"
    assert sweep.rig.job("b").held_why == "StoppedEarly"
    assert sweep.report("c", 25, 0.5) == [Reported]
    assert sweep.rig.job("c").reported is not None
    assert sweep.rig.job("c").reported.rungs == (0.5, 0.5), "a report may skip rungs"  # type: ignore[union-attr]


def test_a_trial_that_ends_is_kept_and_never_stopped() -> None:
    sweep = Played("asha loss min 10 2", 2)
    sweep.report("a", 10, 1.0)
    assert sweep.report("b", 20, 5.0, total=20) == [Reported]
    assert sweep.statuses() == "running running"


def test_halving_continues_when_the_last_has_ended() -> None:
    sweep = Played("halving loss min 10 2", 3)
    assert sweep.report("a", 10, 2.0) == [Reported, Held, Evicted]
    assert sweep.report("b", 10, 1.0) == [Reported, Held, Evicted]
    assert sweep.statuses() == "held held running"
    sweep.tell(*_exit(sweep.rig, "c"))
    assert sweep.statuses() == "held running failed" or sweep.rig.job("b").status == "starting"


def test_a_user_who_releases_a_trial_is_obeyed() -> None:
    sweep = Played("halving loss min 10 2", 2)
    sweep.report("a", 10, 2.0)
    assert sweep.report("b", 10, 1.0) == [Reported]
    sweep.tell(Released(sweep.rig.now, "a"))
    sweep.rig.begin("a")
    assert sweep.report("a", 40, 2.0) == [Reported]
    assert sweep.statuses() == "running running"


def test_a_snapshot_has_all_that_a_rule_needs() -> None:
    sweep = Played("halving loss min 10 2", 3)
    sweep.report("a", 10, 2.0)
    sweep.report("b", 10, 1.0)
    restored = State()
    for fact in snapshot(sweep.rig.state):
        restored.apply(fact)
    later = Played("halving loss min 10 2", 3)
    later.rig.scheduler.state.jobs.clear()
    again = EarlyStopping(lambda: restored, later.posted.append)
    found = Report(0.0, first_step=0, step=10, metrics={"loss": 3.0})
    events = again.arrive(restored.jobs["c"], found, 9.0)
    assert [type(event) for event in events] == [Reported, Held, Evicted, Released]
    assert events[-1] == Released(9.0, "b")
    again.open()
    assert len(later.posted) == 1


def test_reports_keep_the_rungs_of_earlier_ones() -> None:
    sweep = Played("asha loss min 10 2", 1)
    sweep.report("a", 10, 1.0)
    kept = kept_report(sweep.rig.job("a"), Report(0.0, first_step=0, step=15, metrics={"loss": 0.5, "acc": None}))
    assert (kept.step, kept.metrics, kept.rungs) == (15, (("loss", 0.5), ("acc", None)), (1.0,))


def _exit(rig: Rig, job: str) -> list[Event]:
    from weft.model import Exited

    return [Exited(rig.now, job, rig.job(job).run, "failed")]
