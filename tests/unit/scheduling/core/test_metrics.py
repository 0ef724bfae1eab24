"""Figures from journals small enough to count by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import fsum, inf

import pytest

from weft.history.metrics.figures import JobRecord, Record, figures, gather
from weft.model import (
    Cancelled,
    Exited,
    Fact,
    Gpu,
    Held,
    Job,
    Node,
    NodeJoined,
    NodeLost,
    Outcome,
    Profile,
    Progressed,
    Released,
    Share,
    Slots,
    Start,
    Started,
    Stop,
    Submitted,
)

ONE: Slots = (("n0", (0,)),)
OTHER: Slots = (("n0", (1,)),)
BOTH: Slots = (("n0", (0, 1)),)


def node(name: str = "n0", gpus: int = 2, at: float = 0.0) -> NodeJoined:
    return NodeJoined(at, Node(name, (Gpu(),) * gpus))


def submit(at: float, name: str, gpus: int = 1, declared_s: float | None = None, retries: int = 0) -> Submitted:
    return Submitted(at, Job(name, gpus, declared_s=declared_s, retries=retries))


def start(at: float, name: str, slots: Slots = ONE, run: int = 1, weave: tuple[str, ...] = ()) -> Start:
    return Start(at, name, run, slots, weave=weave)


def exit_(at: float, name: str, how: Outcome = "done", run: int = 1, left: float | None = None) -> Exited:
    return Exited(at, name, run, how, left)


def by_id(record: Record) -> dict[str, JobRecord]:
    return {job.id: job for job in record.jobs}


def busy_gpu_seconds(record: Record) -> float:
    rows = record.rows
    return fsum(row[1] * (after[0] - row[0]) for row, after in pairwise(rows))


def test_two_jobs_one_after_the_other() -> None:
    facts: list[Fact] = [
        node(),
        submit(10, "a", gpus=2),
        start(10, "a", BOTH),
        Started(12, "a", 1),
        submit(15, "b"),
        exit_(20, "a"),
        start(20, "b"),
        exit_(50, "b"),
    ]
    record = gather(facts)
    assert [(job.id, job.submit, job.first_start, job.end, job.status) for job in record.jobs] == [
        ("a", 10, 10, 20, "done"),
        ("b", 15, 20, 50, "done"),
    ]
    assert [job.gpu_seconds for job in record.jobs] == [20, 30]
    found = figures(record)
    assert (found.jobs, found.avg_jct_s, found.makespan_s, found.avg_queue_s) == (2, 22.5, 40, 2.5)
    assert (found.p50_jct_s, found.p99_jct_s) == (35, 35)
    assert found.gpu_utilisation == 50 / 80
    assert (found.preemptions, found.restarts) == (0, 0)


@pytest.mark.parametrize(("jobs", "p50", "p99"), [(1, 1, 1), (2, 2, 2), (4, 3, 4), (100, 51, 100), (200, 101, 199)])
def test_percentiles_are_those_of_muri(jobs: int, p50: float, p99: float) -> None:
    facts: list[Fact] = [node(gpus=1), *(submit(0, str(n)) for n in range(1, jobs + 1))]
    for n in range(1, jobs + 1):
        facts += [start(n - 1, str(n)), exit_(n, str(n))]
    found = figures(gather(facts))
    assert (found.p50_jct_s, found.p99_jct_s) == (p50, p99)


def test_a_preempted_job_restarts() -> None:
    facts: list[Fact] = [
        node(),
        submit(0, "a"),
        start(0, "a"),
        Stop(10, "a", 1, "preempted"),
        exit_(12, "a", "stopped", left=20),
        start(40, "a", run=2),
        Stop(45, "a", 2, "moved"),
        exit_(45, "a", "stopped", run=2, left=15),
        start(45, "a", OTHER, run=3),
        exit_(60, "a", run=3),
    ]
    record = gather(facts)
    (job,) = record.jobs
    found = figures(record)
    assert (found.avg_queue_s, found.avg_first_wait_s) == (28, 0), "all waiting; that for the first start"
    assert (job.runs, job.preemptions, job.restarts, job.gpu_seconds, job.first_wait_s) == (3, 1, 2, 12 + 20, 0)
    assert job.queue_s == 40 - 12
    assert figures(record).preemptions == 1
    assert figures(record).restarts == 2
    assert job.solo_s == 32, "attained, where nobody knows better"


def test_a_run_that_ends_before_it_can_be_stopped_was_not_preempted() -> None:
    facts: list[Fact] = [node(), submit(0, "a"), start(0, "a"), Stop(10, "a", 1, "preempted"), exit_(12, "a")]
    (job,) = gather(facts).jobs
    assert (job.status, job.preemptions) == ("done", 0)


def test_a_gang_that_breaks_with_a_lost_node_has_not_failed() -> None:
    facts: list[Fact] = [
        node("n0"),
        node("n1"),
        submit(0, "gang", 2),
        start(0, "gang", (("n0", (0,)), ("n1", (0,)))),
        NodeLost(10, "n1"),
        exit_(11, "gang", "failed"),
    ]
    (job,) = gather(facts).jobs
    assert (job.status, job.end) == ("waiting", None)


def test_news_of_an_old_run_is_dropped() -> None:
    facts: list[Fact] = [
        node(),
        submit(0, "a"),
        start(0, "a"),
        exit_(5, "a", "stopped"),
        start(5, "a", run=2),
        exit_(6, "a", "done", run=1),
        Stop(6, "a", 1, "preempted"),
        exit_(9, "a", "done", run=2),
        exit_(11, "a", "done", run=2),
    ]
    (job,) = gather(facts).jobs
    assert (job.end, job.gpu_seconds, job.preemptions) == (9, 9, 0)


def test_a_weave_counts_its_gpus_once_and_shares_them_out() -> None:
    facts: list[Fact] = [
        node(),
        submit(0, "a", 2),
        submit(0, "b", 2),
        start(0, "a", BOTH, weave=("a", "b")),
        start(0, "b", BOTH, weave=("a", "b")),
        exit_(10, "a"),
        exit_(16, "b"),
    ]
    record = gather(facts)
    assert [job.gpu_seconds for job in record.jobs] == [10, 10 + 12]
    assert figures(record).gpu_utilisation == 1
    assert busy_gpu_seconds(record) == 32


def test_a_gpu_that_is_shared_for_a_while() -> None:
    """`a` holds both GPUs; `b` joins it on the first, leaves, and `a` goes on alone."""
    facts: list[Fact] = [
        node(),
        submit(0, "a", 2),
        submit(0, "b"),
        start(0, "a", BOTH),
        Start(4, "b", 1, ONE, Share(0.0, 1.0)),
        exit_(10, "b"),
        exit_(20, "a"),
    ]
    record = gather(facts)
    jobs = by_id(record)
    assert jobs["b"].gpu_seconds == 3
    assert jobs["a"].gpu_seconds == 40 - 3
    assert [row[1] for row in record.rows] == [2, 2, 2, 0]


def test_one_left_behind_by_its_host_keeps_its_gpu_busy() -> None:
    facts: list[Fact] = [
        node(),
        submit(0, "a", 2),
        submit(0, "b"),
        start(0, "a", BOTH),
        replace(start(2, "b", OTHER), share=Share(0.0, 1.0)),
        exit_(6, "a"),
        start(6, "a", ONE, run=2),
        exit_(8, "b"),
    ]
    facts[5] = exit_(6, "a", "stopped")
    record = gather(facts)
    jobs = by_id(record)
    assert jobs["b"].gpu_seconds == 4 / 2 + 2
    assert jobs["a"].gpu_seconds == 6 + 2 + 4 / 2 + 2, "what still runs is counted up to the last instant"
    assert [row[1] for row in record.rows] == [2, 2, 2, 1]


def test_rho_of_a_job_alone_is_its_slowdown() -> None:
    facts: list[Fact] = [node(), submit(0, "a"), start(5, "a"), exit_(15, "a")]
    (job,) = gather(facts, {"a": 10.0}).jobs
    assert job.rho == 1.5


def test_rho_allows_for_an_equal_share() -> None:
    """Two jobs of two GPUs each on two GPUs: an equal share is one, so twice the solo time is fair."""
    facts: list[Fact] = [
        node(),
        submit(0, "a", 2),
        submit(0, "b", 2),
        start(0, "a", BOTH),
        exit_(10, "a"),
        start(10, "b", BOTH),
        exit_(20, "b"),
    ]
    record = gather(facts, {"a": 10.0, "b": 10.0})
    jobs = by_id(record)
    assert jobs["a"].rho == 0.5
    assert jobs["b"].rho == pytest.approx(20 / (10 * 1.5)), "1.5 jobs in the system on average"
    assert figures(record).fairness_max_rho == jobs["b"].rho


def test_the_blocking_index() -> None:
    """Pending time over remaining time, mean over those pending whose remaining time is known."""
    facts: list[Fact] = [
        node(gpus=1),
        submit(0, "a", declared_s=100),
        submit(0, "b", declared_s=10),
        start(0, "a"),
        submit(5, "c", declared_s=0.1),
        submit(6, "unknown"),
        Stop(20, "a", 1, "preempted"),
        exit_(20, "a", "stopped", left=50),
        start(20, "b"),
        submit(30, "d", declared_s=4),
    ]
    rows = {row[0]: row for row in gather(facts).rows}
    assert rows[0][3:] == (1, 1, 0)
    assert rows[5][5] == pytest.approx((5 / 10 + 0) / 2)
    assert rows[6][5] == pytest.approx((6 / 10 + 1 / 1) / 2), "at least a second is left of c"
    assert rows[6][3] == 3
    assert rows[20][5] == pytest.approx((0 + 15 / 1) / 2)
    assert rows[30][5] == pytest.approx((10 / 50 + 25 / 1 + 0) / 3)
    assert rows[30][3:5] == (4, 1)


def test_remaining_time_comes_from_iterations_first() -> None:
    job = Job("a", declared_s=1000, iterations=20, profile=Profile("m", 0.5, 0.1, 0.3, 0.1))
    record = gather([node(), Submitted(0, job), submit(5, "b")])
    assert record.rows[-1][5] == pytest.approx(5 / 10)


def test_one_row_an_instant_the_last_word_counts() -> None:
    facts: list[Fact] = [
        node(),
        submit(0, "a"),
        start(0, "a"),
        Started(1, "a", 1),
        Progressed(2, "a", 1, 5.0),
        exit_(3, "a"),
        submit(3, "b"),
        start(3, "b"),
        exit_(7, "b"),
    ]
    assert gather(facts).rows == [(0, 1, 2, 0, 1, 0), (3, 1, 2, 0, 1, 0), (7, 0, 2, 0, 0, 0)]


def test_failed_and_cancelled_jobs_end_but_have_no_jct() -> None:
    facts: list[Fact] = [
        node(),
        submit(0, "fails", retries=1),
        start(0, "fails"),
        exit_(4, "fails", "failed"),
        start(4, "fails", run=2),
        exit_(8, "fails", "failed", run=2),
        submit(8, "waits"),
        Cancelled(10, "waits"),
        submit(10, "runs"),
        start(10, "runs"),
        Cancelled(11, "runs"),
        Stop(11, "runs", 1, "cancelled"),
        exit_(12, "runs", "stopped"),
    ]
    record = gather(facts)
    assert {job.id: (job.status, job.end) for job in record.jobs} == {
        "fails": ("failed", 8),
        "waits": ("cancelled", 10),
        "runs": ("cancelled", 12),
    }
    found = figures(record)
    assert (found.jobs, found.finished, found.failed, found.unfinished) == (3, 0, 1, 0)
    assert (found.avg_jct_s, found.p50_jct_s, found.fairness_max_rho) == (None, None, None)
    assert (found.makespan_s, found.restarts, found.preemptions) == (12, 1, 0)


def test_a_held_job_is_not_pending() -> None:
    facts: list[Fact] = [node(), submit(0, "a"), Held(1, "a"), Released(5, "a"), start(6, "a"), exit_(7, "a")]
    record = gather(facts)
    assert [row[3] for row in record.rows] == [1, 0, 1, 0, 0]
    assert record.jobs[0].status == "done"


def test_a_lost_node_takes_its_gpus_and_runs_with_it() -> None:
    """`gang` spans both nodes and loses half; `a` is on the lost node alone and waits again at once."""
    facts: list[Fact] = [
        node("n0"),
        node("n1"),
        submit(0, "gang", 2),
        submit(0, "a"),
        start(0, "gang", (("n0", (0,)), ("n1", (0,)))),
        start(0, "a", (("n1", (1,)),)),
        NodeLost(10, "n1"),
        Stop(10, "gang", 1, "node-lost"),
        exit_(12, "gang", "stopped"),
        start(12, "gang", BOTH, run=2),
        exit_(20, "gang", run=2),
        start(20, "a", ONE, run=2),
        exit_(25, "a", run=2),
    ]
    record = gather(facts)
    jobs = by_id(record)
    assert jobs["gang"].gpu_seconds == 20 + 2 + 16
    assert jobs["a"].gpu_seconds == 10 + 5
    assert [row[1:3] for row in record.rows] == [(3, 4), (1, 2), (2, 2), (1, 2), (0, 2)]
    assert figures(record).gpu_utilisation == (38 + 15) / (4 * 10 + 2 * 15)


def test_figures_of_nothing() -> None:
    found = figures(gather([]))
    assert (found.jobs, found.avg_jct_s, found.makespan_s, found.gpu_utilisation) == (0, None, None, None)


def test_unfinished_jobs_count_up_to_the_end_of_the_journal() -> None:
    facts: list[Fact] = [
        node(),
        submit(0, "a"),
        submit(0, "b"),
        start(0, "a"),
        start(0, "b", OTHER),
        exit_(5, "a"),
        submit(9, "c"),
    ]
    record = gather(facts)
    assert by_id(record)["b"].status == "running"
    assert figures(record).gpu_utilisation == (5 + 9) / (2 * 9)
    assert figures(record).makespan_s == 5
    assert (figures(record).jobs, figures(record).finished, figures(record).unfinished) == (3, 1, 2)


def test_utilisation_needs_the_gpus() -> None:
    record = gather([node(), submit(0, "a"), start(0, "a"), exit_(5, "a")])
    assert figures(Record(record.jobs)).gpu_utilisation is None
    assert figures(Record(record.jobs, gpus=[(-inf, 4)])).gpu_utilisation == 0.25
