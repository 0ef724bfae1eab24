"""Counters of jobs: fed with the facts of real schedulers, batch by batch."""

from __future__ import annotations

import random

import pytest
from prometheus_client import CollectorRegistry

from support.builders import Rig, grid
from weft.history.metrics.figures import figures, gather
from weft.model import Cancelled, Exited, Job, NodeLost, Purged, Started, Submitted
from weft.server.http import job_counters
from weft.server.http.job_counters import JobCounters


class Counted:
    """A scheduler whose facts are counted in batches."""

    def __init__(self) -> None:
        self.rig = Rig("priority:preempts=on", grid(2, 4))
        self.registry = CollectorRegistry()
        self.counters = JobCounters(self.registry, self.rig.state)
        self._seen = len(self.rig.facts)

    def count(self) -> None:
        facts, self._seen = self.rig.facts[self._seen :], len(self.rig.facts)
        self.counters.record(self.rig.state, facts, facts)  # type: ignore[arg-type]

    def value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
def counted() -> Counted:
    return Counted()


def test_the_counters_agree_with_the_figures(counted: Counted) -> None:
    chance, rig = random.Random(3), counted.rig
    for number in range(300):
        rig.submit(Job(f"j{number}", chance.choice([1, 2, 4]), user=chance.choice("ab"), priority=chance.randrange(3)))
        for job in list(rig.state.active.values()):
            if job.status == "starting":
                rig.tell(Started(rig.now, job.id, job.run))
            elif job.status == "stopping":
                rig.tell(Exited(rig.now, job.id, job.run, "stopped"))
            elif chance.random() < 0.4:
                rig.tell(Exited(rig.now, job.id, job.run, "done" if chance.random() < 0.8 else "failed", code=1))
        if number % 50 == 49:
            rig.tell(Cancelled(rig.now, next(iter(rig.state.waiting), "none")))
            old = tuple(rig.state.ended)[:10]
            counted.count()
            rig.tell(Purged(rig.now, old))
        counted.count()
        rig.later(7.0)
    jobs = [fact.job for fact in rig.facts if isinstance(fact, Submitted)]
    facts = [fact for fact in rig.facts if not isinstance(fact, Purged)]
    record = gather(facts)
    found = figures(record)
    assert counted.value("weft_jobs_submitted_total") == len(jobs) == 300
    assert counted.value("weft_job_ends_total", outcome="done") == found.finished
    assert counted.value("weft_job_ends_total", outcome="failed") == found.failed
    assert counted.value("weft_job_ends_total", outcome="cancelled") == sum(
        j.status == "cancelled" for j in record.jobs
    )
    assert counted.value("weft_preemptions_total") >= found.preemptions > 0
    waits = [job.first_wait_s for job in record.jobs if job.first_wait_s is not None]
    assert counted.value("weft_job_wait_seconds_count") == len(waits)
    assert counted.value("weft_job_wait_seconds_sum") == pytest.approx(sum(waits))
    assert counted.value("weft_job_wait_seconds_bucket", le="60.0") == sum(wait <= 60 for wait in waits)
    for user in "ab":
        assert counted.value("weft_user_jobs_submitted_total", user=user) == sum(job.user == user for job in jobs)
        ended = {job.id for job in record.jobs if job.user == user}
        active_s = {job.id: (rig.now - job.started_at) * job.gpus for job in rig.state.active.values()}
        total = sum(job.gpu_seconds - active_s.get(job.id, 0.0) for job in record.jobs if job.id in ended)
        assert counted.value("weft_user_gpu_seconds_total", user=user) == pytest.approx(total, abs=7.0 * 8)


def test_runs_on_a_lost_node_are_charged_when_the_job_ends(counted: Counted) -> None:
    rig = counted.rig
    rig.submit(Job("a", 2, user="ada"))
    job = rig.state.jobs["a"]
    rig.tell(Started(rig.now, "a", 1))
    rig.later(10.0)
    rig.tell(NodeLost(rig.now, job.slots[0][0]))
    counted.count()
    assert counted.value("weft_user_gpu_seconds_total", user="ada") in (0.0, 20.0)
    if job.status == "starting":
        rig.tell(Started(rig.now, "a", 2))
    rig.later(5.0)
    rig.tell(Exited(rig.now, "a", job.run, "done"))
    counted.count()
    assert counted.value("weft_user_gpu_seconds_total", user="ada") == pytest.approx(30.0)
    assert counted.value("weft_job_ends_total", outcome="done") == 1
    counted.count()
    assert counted.value("weft_job_ends_total", outcome="done") == 1, "each end counts once"


def test_there_is_a_bound_to_users(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_counters, "MAX_USERS", 3)
    for number in range(7):
        counted.rig.submit(Job(f"j{number}", user=f"u{number}"))
    counted.count()
    assert counted.value("weft_user_jobs_submitted_total", user="u2") == 1
    assert counted.value("weft_user_jobs_submitted_total", user="_others") == 4
    assert set(counted.counters.by_user(counted.rig.state.jobs.values())) == {"u0", "u1", "u2", "_others"}
