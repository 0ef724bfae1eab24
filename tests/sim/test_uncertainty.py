"""Simulations with wrong estimates, failing nodes and crashing runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from support.builders import grid, node, profile, record, traced
from support.state_checks import check
from weft.errors import InputError
from weft.history.journal.codec import encode_line
from weft.history.metrics.figures import figures, gather
from weft.model import Exited, Fact, Node, NodeJoined, NodeLost, Progressed, Start, Stop, Submitted
from weft.scheduling.core.scheduler import Scheduler
from weft.sim import engine
from weft.sim.engine import Engine
from weft.sim.faults.failures import Crashes, Faults
from weft.sim.faults.uncertainty import Uncertainty
from weft.sim.simulation import Model, Setting, prepare, simulate
from weft.sim.traces.generator import small
from weft.sim.traces.trace import TraceJob

POLICIES = (
    "fifo", "priority", "srsf", "qssf", "gittins", "tiresias", "fair-share", "themis", "antman", "muri-s", "muri-l",
)  # fmt: skip
ALL = Uncertainty("unknown", mtbf_s=8000, repair_s=1200, crash_rate=0.1)
KINDS = {
    "estimates": Uncertainty("lognormal:0.7"),
    "unknown": Uncertainty("unknown"),
    "failures": Uncertainty(mtbf_s=20_000),
    "crashes": Uncertainty(crash_rate=0.2),
    "all": ALL,
}
MODELS: tuple[Model, ...] = ("real", "muri")


def jobs_with(retries: int) -> list[TraceJob]:
    return [replace(each, job=replace(each.job, retries=retries)) for each in small().jobs[:100]]


def journal(policy: str, unsure: Uncertainty, seed: int = 3, *, model: Model = "real", resort: bool = False) -> str:
    setting = Setting(grid(4, 8), jobs_with(2), policy, model=model, seed=seed, uncertainty=unsure, resort=resort)
    outcome = simulate(setting)
    check(outcome.state)
    assert {job.status for job in outcome.state.jobs.values()} <= {"done", "failed"}
    return "\n".join(map(encode_line, outcome.journal.read()))


# ---- the seed


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("model", MODELS)
def test_same_seed_same_journal(policy: str, model: Model) -> None:
    first = journal(policy, ALL, model=model)
    assert first == journal(policy, ALL, model=model)
    assert first != journal(policy, ALL, seed=4, model=model)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_order_kept_is_the_order_sorted(policy: str, kind: str) -> None:
    assert journal(policy, KINDS[kind]) == journal(policy, KINDS[kind], resort=True)


def test_the_seed_of_python_does_not_matter() -> None:
    script = (
        "import hashlib; from weft.sim.clusters.reader import read_cluster\n"
        "from weft.sim.traces.generator import demo\n"
        "from weft.sim.simulation import Setting, simulate; from weft.sim.faults.uncertainty import Uncertainty\n"
        "from weft.history.journal.codec import encode_line\n"
        "unsure = Uncertainty('unknown', 8000, 1200, 0.1)\n"
        "out = simulate(Setting(read_cluster('4x8'), demo(2).jobs, 'srsf', seed=3, uncertainty=unsure))\n"
        "print(hashlib.sha256('\\n'.join(map(encode_line, out.journal.read())).encode()).hexdigest())"
    )
    run = [sys.executable, "-c", script]
    told = {
        subprocess.run(run, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def test_certainty_draws_nothing() -> None:
    assert journal("srsf", Uncertainty(), seed=1) == journal("srsf", Uncertainty(), seed=2)
    assert journal("srsf", Uncertainty("lognormal:0")) == journal("srsf", Uncertainty())


def test_every_policy_meets_the_same_failures() -> None:
    def failures(policy: str, unsure: Uncertainty) -> list[Fact]:
        outcome = simulate(Setting(grid(4, 8), jobs_with(2), policy, seed=3, uncertainty=unsure), until=20_000)
        return [f for f in outcome.journal.read() if isinstance(f, NodeLost) or (isinstance(f, NodeJoined) and f.at)]

    found = failures("fifo", KINDS["failures"])
    assert found == failures("srsf", KINDS["failures"])
    assert found == failures("fifo", replace(KINDS["failures"], crash_rate=0.3, estimates="unknown"))
    assert len(found) > 5


# ---- nodes that fail


class Planned(Faults):
    """Failures and repairs as a test wants them."""

    def __init__(self, *events: NodeLost | NodeJoined) -> None:
        self._events = list(events)

    def next_time(self) -> float:
        return self._events[0].at if self._events else float("inf")

    def happen(self, now: float) -> list[NodeLost | NodeJoined]:
        due = [event for event in self._events if event.at <= now]
        self._events = self._events[len(due) :]
        return due


def drive(scheduler: Scheduler, driver: Engine) -> Iterator[Fact]:
    for events in driver.instants():
        decisions = scheduler.step(*events)
        check(scheduler.state)
        yield from (*events, *decisions)
        for decision in decisions:
            driver.execute(decision)


def run_with(
    nodes: Sequence[Node], jobs: Sequence[TraceJob], *faults: NodeLost | NodeJoined, policy: str = "fifo",
    estimates: str = "exact", model: Model = "real",
) -> tuple[list[Fact], dict[str, float | None]]:  # fmt: skip
    """The facts, and when each job ended."""
    setting = Setting(nodes, jobs, policy, checkpoint_interval_s=100, model=model, uncertainty=Uncertainty(estimates))
    scheduler, driver = prepare(setting, faults=Planned(*faults))
    facts = list(drive(scheduler, driver))
    return facts, {job.id: job.ended_at for job in scheduler.state.jobs.values()}


LOADS = profile(0.25, 0.5, 0.25, start=5)


def test_a_lost_node_loses_the_work_since_the_last_checkpoint() -> None:
    """a works from 5; at 355 it has done 350 and saved 300. n0 is back at 400: 5 s to load, 700 s to do."""
    (n0,) = grid(1, 1)
    facts, ends = run_with([n0], [traced("a", 0, 1000, profile=LOADS)], NodeLost(355, "n0"), NodeJoined(400, n0))
    assert ends == {"a": 400 + 5 + 700}
    assert [fact for fact in facts if isinstance(fact, Progressed | Exited)] == [
        Progressed(355, "a", 1, 700, 1.0),
        Exited(1105, "a", 2, "done", 0.0),
    ]


def test_a_run_lost_while_it_loads_has_lost_nothing_but_that() -> None:
    n0, n1 = grid(2, 1)
    jobs = [traced("a", 0, 50, profile=LOADS)]
    facts, ends = run_with([n0, n1], jobs, NodeLost(3, "n0"))
    assert ends == {"a": 3 + 5 + 50}, "it goes on at once on the other node"
    assert [fact.slots for fact in facts if isinstance(fact, Start)] == [(("n0", (0,)),), (("n1", (0,)),)]


def test_a_gang_that_loses_a_part_is_stopped_and_keeps_its_checkpoints() -> None:
    """Two nodes, 1.17 times slower: at 234 s of work 200 are done and saved. The third node takes its part at once."""
    nodes = grid(3, 1)
    facts, ends = run_with(nodes, [traced("a", 0, 1000, gpus=2, profile=LOADS)], NodeLost(5 + 250, "n0"))
    assert [fact for fact in facts if isinstance(fact, Stop | Exited)][:2] == [
        Stop(255, "a", 1, "node-lost"),
        Exited(255, "a", 1, "stopped", 800),
    ]
    assert ends["a"] == pytest.approx(255 + 5 + 800 * 1.17)


def test_a_gang_all_of_whose_nodes_fail_at_once_waits() -> None:
    n0, n1 = grid(2, 1)
    lost = [NodeLost(300, "n0"), NodeLost(300, "n1")]
    jobs = [traced("a", 0, 1000, gpus=2, profile=LOADS)]
    facts, ends = run_with([n0, n1], jobs, *lost, NodeJoined(400, n0), NodeJoined(500, n1))
    assert [fact for fact in facts if isinstance(fact, Stop)] == []
    assert ends["a"] == pytest.approx(500 + 5 + 800 * 1.17)


def test_members_of_a_weave_are_lost_together() -> None:
    a, b = profile(4, 1, 1), profile(1, 3, 1)
    nodes = grid(2, 1)
    jobs = [traced("a", 0, 200, profile=a), traced("b", 0, 100, profile=b)]
    facts, ends = run_with(
        nodes, jobs, NodeLost(400, "n0"), NodeLost(500, "n1"), NodeJoined(900, nodes[0]), policy="muri-s"
    )
    assert all(ends.values())
    assert all(isinstance(fact.remaining_s, float) for fact in facts if isinstance(fact, Progressed))


def test_by_muris_rules_a_lost_node_loses_no_work() -> None:
    """50 s done at 50, of which the start-up of 5 s is charged: 55 to do from 80 on."""
    (n0,) = grid(1, 1)
    jobs = [traced("a", 0, 100, profile=LOADS)]
    _, ends = run_with([n0], jobs, NodeLost(50, "n0"), NodeJoined(80, n0), policy="srsf", model="muri")
    assert ends == {"a": 80 + 55}


def test_nodes_that_are_down_at_the_end_do_not_keep_it_going() -> None:
    unsure = Uncertainty(mtbf_s=3600, repair_s=100_000)
    outcome = simulate(Setting(grid(64, 1), [traced("a", 0, 600)], "fifo", seed=1, uncertainty=unsure))
    facts = list(outcome.journal.read())
    assert isinstance(facts[-1], Exited)
    assert sum(isinstance(fact, NodeLost) for fact in facts) > 3


def test_jobs_that_wait_for_a_repair_get_it() -> None:
    unsure = Uncertainty(mtbf_s=2000, repair_s=5000)
    outcome = simulate(Setting(grid(2, 2), [traced("a", 0, 3000, gpus=4)], "fifo", seed=5, uncertainty=unsure))
    assert outcome.state.jobs["a"].status == "done"
    assert outcome.state.jobs["a"].run > 1


def test_nodes_that_fail_too_often_are_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "FUTILE_FAULTS", 500)
    unsure = Uncertainty(mtbf_s=60, repair_s=60)
    with pytest.raises(InputError, match=r"500 failures and repairs by .* without a job ending") as caught:
        simulate(Setting(grid(8, 1), [traced("a", 0, 9000, gpus=8)], "fifo", uncertainty=unsure))
    assert "mtbf" in caught.value.hint


def test_events_of_one_instant_have_an_order() -> None:
    """At 100 a ends, n1 is lost and b arrives: in this order."""
    n0, n1 = grid(2, 1)
    facts, _ = run_with([n0, n1], [traced("a", 0, 100), traced("b", 100, 5)], NodeLost(100, "n1"))
    kinds = [type(fact).__name__ for fact in facts if fact.at == 100]
    assert kinds[:3] == ["Exited", "NodeLost", "Submitted"]


# ---- runs that crash


class Once(Crashes):
    """The first run crashes with so much left."""

    def __init__(self, left: float) -> None:
        self._left = left

    def remaining_at_crash(self, job: str, run: int, left: float) -> float:
        return self._left if run == 1 else 0.0


@pytest.mark.parametrize(("retries", "end", "status"), [(1, 655 + 5 + 400, "done"), (0, 655, "failed")])
def test_a_crash_loses_the_work_since_the_last_checkpoint(retries: int, end: float, status: str) -> None:
    """650 of 1000 s done at 655, 600 of them saved."""
    jobs = [traced("a", 0, 1000, profile=LOADS, retries=retries)]
    setting = Setting(grid(1, 1), jobs, "fifo", checkpoint_interval_s=100)
    scheduler, driver = prepare(setting, crashes=Once(350))
    facts = list(drive(scheduler, driver))
    job = scheduler.state.jobs["a"]
    assert (job.ended_at, job.status, job.failures) == (end, status, retries)
    assert Exited(655, "a", 1, "failed", 400) in facts


@pytest.mark.parametrize("model", MODELS)
def test_a_job_that_always_crashes_fails_after_its_retries(model: Model) -> None:
    setting = Setting(
        grid(1, 1), [traced("a", 0, 50, retries=3)], "fifo", model=model, uncertainty=Uncertainty(crash_rate=1.0)
    )
    job = simulate(setting).state.jobs["a"]
    assert (job.status, job.run) == ("failed", 4)


# ---- what policies know


def starts(facts: Sequence[Fact]) -> list[str]:
    return [fact.job for fact in facts if isinstance(fact, Start)]


def test_without_history_srsf_is_fifo_among_jobs_that_never_ran() -> None:
    jobs = [traced(f"j{n}", n, 1000 - 90 * n) for n in range(8)]
    known, unknown = (
        record(grid(1, 1), jobs, "srsf", uncertainty=Uncertainty(kind), checkpoint_interval_s=0)
        for kind in ("exact", "unknown")
    )
    assert starts(known.facts)[:3] == ["j0", "j1", "j2"], "each shorter than what runs"
    assert starts(unknown.facts) == [each.job.id for each in jobs]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", ["lognormal:0.5", "unknown"])
def test_the_truth_does_not_show_before_the_end(policy: str, model: Model, kind: str) -> None:
    """The estimate at submission is not the truth, and later ones are between the estimate and nothing."""
    nodes, jobs = grid(2, 8), small().jobs[:60]
    unsure = Uncertainty(kind, mtbf_s=9000, repair_s=900, crash_rate=0.1)
    outcome = simulate(Setting(nodes, jobs, policy, model=model, seed=1, uncertainty=unsure))
    work = {each.job.id: each.work_s for each in jobs}
    for fact in outcome.journal.read():
        if isinstance(fact, Submitted):
            assert fact.job.declared_s != work[fact.job.id]
            assert fact.job.iterations is None or kind != "unknown"
        elif isinstance(fact, Progressed | Exited) and not (isinstance(fact, Exited) and fact.how == "done"):
            told = outcome.state.jobs[fact.job].job
            if told.declared_s is None:
                assert fact.remaining_s is None
            else:
                assert fact.remaining_s is not None
                assert 1.0 <= fact.remaining_s <= told.declared_s * (1 + 1e-9)


def test_news_of_a_stop_is_in_terms_of_the_estimate() -> None:
    """a has done 600 of its 1000 s when b, believed shorter, stops it: what is left is the estimate less 600."""
    jobs = [traced("a", 0, 1000), traced("b", 650, 10)]
    done = record(grid(1, 1), jobs, "srsf", seed=4, uncertainty=Uncertainty("lognormal:0.3"))
    told = {f.job.id: (f.job.iterations or 0) * 1.0 for f in done.facts if isinstance(f, Submitted)}
    (stopped,) = [fact for fact in done.facts if isinstance(fact, Exited) and fact.how == "stopped"]
    assert told["a"] != 1000
    assert stopped.remaining_s == pytest.approx(told["a"] - 600)
    assert done.ends()["a"] == 660 + 400, "the truth took its course"


def average_jct(jobs: Sequence[TraceJob], policy: str, kind: str) -> float:
    outcome = simulate(Setting([node("n0", 4)], jobs, policy, uncertainty=Uncertainty(kind)))
    average = figures(gather(outcome.journal.read())).avg_jct_s
    assert average is not None
    return average


def test_what_is_learned_shortens_jcts() -> None:
    """Two names, of 40 and 900 s: once one of each has finished, the short ones go first, as if lengths were known."""
    jobs = [traced(f"j{n}", 40 * n, (40, 900)[n % 3 == 0], name=("short", "long")[n % 3 == 0]) for n in range(120)]
    exact, learned, blind = (
        average_jct(jobs, *each) for each in (("srsf", "exact"), ("srsf", "unknown"), ("fifo", "unknown"))
    )
    assert exact <= learned < 0.7 * blind
    assert learned < 1.3 * exact
