"""Usage: GPU time in a window by user, group and model, samples of GPUs, and advice."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders import Rig, node
from weft.history.metrics.advice import advise, cpu_share, memory_share
from weft.history.metrics.history import History, Selection, read_history
from weft.history.metrics.usage import JobUsage, job_usages, usage_by
from weft.model import Exited, Job, PerRank, Submitted, Task, Use, Used
from weft.scheduling.core.state.apply.snapshots import snapshot
from weft.server.jobs.run_use import UseMeter
from weft.views.from_state.measured import GpuUsage

HOUR = 3600.0


def rig_with_two_models() -> Rig:
    """Two jobs of ann and one of bob: 2 GPUs for 3 h on A100, then 1 GPU for 1 h, and 4 GPUs for 2 h on H100."""
    rig = Rig("fifo", [node("a", 4, model="A100"), node("h", 4, model="H100")])
    rig.submit(
        Job("1", 2, user="ann", task=Task(group="g")), Job("2", 4, user="bob"), Job("3", 1, user="ann"),
    )  # fmt: skip
    rig.settle()
    rig.now = HOUR
    rig.exit("3")
    rig.now = 2 * HOUR
    rig.tell(Exited(rig.now, "2", 1, "done", cpu_s=100.0, rss_mb=7))
    rig.tell(Used(rig.now, "2", 1, Use(sampled_s=HOUR, busy_s=HOUR / 2, metered_s=HOUR, energy_j=3.6e6)))
    rig.now = 3 * HOUR
    rig.exit("1")
    return rig


def hours(history: History, by: str, since: float = float("-inf")) -> dict[str, float]:
    found = usage_by(job_usages(history.record.jobs, history.usage, since), by)
    return {row.name: pytest.approx(row.gpu_s / HOUR) for row in found}  # type: ignore[misc]


def test_gpu_hours_by_user_group_and_model() -> None:
    history = read_history(rig_with_two_models().facts)
    assert hours(history, "user") == {"bob": 8.0, "ann": 7.0}
    assert hours(history, "group") == {"": 9.0, "g": 6.0}
    assert hours(history, "model") == {"H100": 8.0, "A100": 7.0}
    assert hours(history, "user", since=2.5 * HOUR) == {"ann": 1.0}
    (bob, _) = usage_by(job_usages(history.record.jobs, history.usage), "user")
    assert (bob.utilisation, bob.energy_j, bob.metered) == (0.5, 3.6e6, True)


def test_gpu_hours_by_team_with_those_of_departments() -> None:
    rig = Rig("fifo", [node("a", 8)])
    teams = ("lab/x", "lab/y", "other")
    rig.submit(*(Job(str(gpus), gpus, task=Task(team=team)) for gpus, team in enumerate(teams, 1)), Job("4"))
    rig.settle()
    rig.now = HOUR
    for name in list(rig.active):
        rig.exit(name)
    history = read_history(rig.facts)
    assert hours(history, "team") == {"lab": 3.0, "other": 3.0, "lab/y": 2.0, "lab/x": 1.0, "": 1.0}
    assert [job.id for job in Selection(team="lab").of(history.record).jobs] == ["1", "2"]
    assert [job.id for job in Selection(team="lab/y").of(history.record).jobs] == ["2"]


def test_a_compacted_journal_gives_the_same_usage() -> None:
    rig = rig_with_two_models()
    history = read_history(snapshot(rig.state))
    assert history.usage.uses["2"] == Use(HOUR, HOUR / 2, 0, HOUR, 3.6e6, 100.0, 7)
    assert {name: round(float(span[0].end - span[0].begin)) for name, span in history.usage.spans.items()} == {
        "1": 10800, "2": 7200, "3": 3600,
    }  # fmt: skip


def test_gpus_of_a_lost_node_count_until_it_is_lost() -> None:
    rig = Rig("fifo", [node("a", 2, model="A100")])
    rig.submit(Job("1", 2, user="ann"))
    rig.settle()
    rig.now = HOUR
    rig.lose("a")
    rig.now = 5 * HOUR
    rig.tell(Submitted(rig.now, Job("2")))
    history = read_history(rig.facts)
    assert hours(history, "model") == {"A100": 2.0}


def test_jobs_without_gpus_count_as_jobs() -> None:
    rig = Rig("fifo", [node("a", 2, cpus=8)])
    rig.submit(Job("1", 0, user="ann", cpus=1))
    rig.settle()
    rig.now = HOUR
    rig.exit("1")
    history = read_history(rig.facts)
    (found,) = job_usages(history.record.jobs, history.usage)
    assert (found.run_s, found.gpu_s) == (HOUR, {})
    assert hours(history, "user") == {"ann": 0.0}
    assert hours(history, "model") == {}
    assert job_usages(history.record.jobs, history.usage, since=2 * HOUR) == []


def test_samples_are_added_up_for_each_run() -> None:
    rig = Rig("fifo", [node("a", 4, memory_mb=1000)])
    rig.submit(Job("1", 2), Job("2", 1))
    rig.settle()
    meter = UseMeter()
    meter.sample(rig.state, {("a", gpu): GpuUsage(0, 0.0, energy_j=1000.0) for gpu in range(4)}, 0.0)
    readings = {
        ("a", 0): GpuUsage(500, 100.0, energy_j=1300.0), ("a", 1): GpuUsage(700, 50.0, energy_j=1200.0),
        ("a", 2): GpuUsage(None, None),
    }  # fmt: skip
    meter.sample(rig.state, readings, 10.0)
    one = meter.take(("1", 1))
    assert one == Use(sampled_s=10.0, busy_s=7.5, memory_mb=700, metered_s=10.0, energy_j=500.0)
    assert meter.take(("2", 1)) is None, "nothing is known of its GPU"
    assert meter.take(("1", 1)) is None


def test_a_run_that_vanished_with_its_node_is_not_forgotten() -> None:
    rig = Rig("fifo", [node("a", 1)])
    rig.submit(Job("1"))
    rig.settle()
    meter = UseMeter()
    for now in (0.0, 10.0):
        meter.sample(rig.state, {("a", 0): GpuUsage(10, 20.0)}, now)
    assert meter.take_ended(rig.state) == []
    rig.lose("a")
    assert [key for key, _ in meter.take_ended(rig.state)] == [("1", 1)]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_energy_is_never_negative(totals: list[float]) -> None:
    rig = Rig("fifo", [node("a", 1)])
    rig.submit(Job("1"))
    rig.settle()
    meter = UseMeter()
    for at, total in enumerate(totals):
        meter.sample(rig.state, {("a", 0): GpuUsage(1, 10.0, energy_j=total)}, 10.0 * at)
    use = meter.take(("1", 1))
    assert use is not None
    assert 0 <= use.energy_j <= sum(totals)


def usage(run_s: float = 3600.0, gpus: int = 1, **use: float) -> JobUsage:
    return JobUsage("1", "ann", "", gpus, "done", {"": run_s * gpus}, run_s, Use(**use))  # type: ignore[arg-type]


def test_advice_names_what_is_wasted() -> None:
    job = Job("1", 1, cpus=4, memory_mb=PerRank(20000))
    poor = usage(sampled_s=100.0, busy_s=10.0, memory_mb=4000, cpu_s=1000.0)
    assert cpu_share(poor, job) == pytest.approx(1000 / 14400)
    assert memory_share(poor, job) == 0.2
    found = advise(poor, job)
    assert [text.partition(":")[0] for text in found] == [
        "its GPUs were 10% busy", "it reserved 20,000 MB on each GPU and used 4,000", "it used 7% of its CPUs",
    ]  # fmt: skip
    assert "--memory 4864" in found[1]
    starved = usage(sampled_s=100.0, busy_s=10.0, cpu_s=14000.0)
    assert advise(starved, job) == [
        "its GPUs wait for its CPUs: give it more with --cpus, or load data in more workers"
    ]
    assert advise(usage(sampled_s=100.0, busy_s=1.0), job)[0].startswith("its GPUs were idle")
    assert advise(usage(sampled_s=100.0, busy_s=90.0, memory_mb=15000, cpu_s=8000.0), job) == []
    assert advise(usage(run_s=10.0, sampled_s=10.0), job) == [], "a short job tells too little"
