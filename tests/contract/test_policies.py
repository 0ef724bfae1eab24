"""The contract of policies, tested on every registered one, including one from another package."""

from __future__ import annotations

from functools import cache
from typing import Literal

import pytest

from support.builders import Recording, grid, record
from support.state_checks import double_booked, snapshot
from weft.model import Exited, Wake
from weft.scheduling.core.ports import Replanner
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.apply.snapshots import snapshot as summed_up
from weft.scheduling.plugins import registry
from weft.sim.simulation import Setting, prepare, simulate
from weft.sim.traces.generator import GANG_MIX, generate, small

NODES = grid(4, 8)
POLICIES = sorted(registry.registered_plugins("weft.policies"))
KEYED = [name for name in POLICIES if not isinstance(registry.load_policy(name), Replanner)]
CUTS = 6
FOLLOWING = 60
Model = Literal["real", "muri"]

every_policy = pytest.mark.parametrize("policy", POLICIES)
both_models = pytest.mark.parametrize("model", ["real", "muri"])


@cache
def run(policy: str, model: Model) -> Recording:
    return record(NODES, small().jobs, policy, model=model)


def fresh(recording: Recording) -> Scheduler:
    scheduler, _ = prepare(recording.setting)
    return scheduler


@both_models
@every_policy
def test_finishes_every_job(policy: str, model: Model) -> None:
    state = run(policy, model).state
    assert [job.id for job in state.jobs.values() if job.status != "done"] == []
    assert len(state.jobs) == 200
    assert not state.active


@both_models
@every_policy
def test_the_key_of_a_waiting_job_stands_still(policy: str, model: Model) -> None:
    simulate(Setting(NODES, small().jobs[:80], policy, model=model, check_keys=True))


@both_models
@every_policy
def test_gives_no_gpu_twice(policy: str, model: Model) -> None:
    assert list(double_booked(run(policy, model).facts)) == []


@both_models
@every_policy
def test_runs_a_job_no_sooner_and_no_faster_than_can_be(policy: str, model: Model) -> None:
    recording = run(policy, model)
    for each in small().jobs:
        job = recording.state.jobs[each.job.id]
        assert job.first_start is not None
        assert job.ended_at is not None
        assert job.first_start >= each.submit_s
        assert job.ended_at - job.first_start >= each.work_s * (1 - 1e-9)


@both_models
@every_policy
def test_same_trace_same_journal(policy: str, model: Model) -> None:
    assert record(NODES, small().jobs, policy, model=model).facts == run(policy, model).facts


@both_models
@pytest.mark.parametrize("policy", KEYED)
def test_keeps_the_same_order_as_sorting_anew(policy: str, model: Model) -> None:
    resorted = record(NODES, small().jobs, policy, model=model, resort=True)
    assert resorted.facts == run(policy, model).facts


@pytest.mark.parametrize("policy", KEYED)
def test_keeps_the_same_order_as_sorting_anew_in_a_long_queue(policy: str) -> None:
    jobs = generate(300, seed=7, gpus_in_cluster=32, load=1.3, mix=GANG_MIX, median_s=300, mean_s=900).jobs
    kept, resorted = (record(NODES, jobs, policy, resort=resort) for resort in (False, True))
    assert resorted.facts == kept.facts


@both_models
@every_policy
def test_decides_the_same_on_the_same_events(policy: str, model: Model) -> None:
    recording = run(policy, model)
    scheduler = fresh(recording)
    for events, decisions in recording.steps:
        assert list(scheduler.step(*events)) == decisions


@both_models
@every_policy
def test_a_replay_gives_the_same_state(policy: str, model: Model) -> None:
    recording = run(policy, model)
    scheduler = fresh(recording)
    scheduler.replay(recording.facts)
    assert snapshot(scheduler.state) == snapshot(recording.state)


@every_policy
def test_goes_on_from_a_snapshot(policy: str) -> None:
    """A policy may lose its memory with the facts that were dropped; it continues to decide all the same."""
    recording = run(policy, "real")
    half = recording.steps[: len(recording.steps) // 2]
    before = fresh(recording)
    before.replay(recording.facts_of(half))
    scheduler = fresh(recording)
    scheduler.replay(summed_up(before.state))
    scheduler.step(Wake(before.state.now))
    for job in list(scheduler.state.active.values()):
        scheduler.step(Exited(before.state.now + 1, job.id, job.run, "done"))
    assert all(job.status == "done" for job in scheduler.state.ended.values())
    assert scheduler.state.active or not scheduler.state.waiting


@pytest.mark.parametrize("cut", range(1, CUTS))
@both_models
@every_policy
def test_decides_the_same_after_a_restart(policy: str, model: Model, cut: int) -> None:
    """The scheduler is restored from the journal so far and goes on as the other did."""
    recording = run(policy, model)
    at = len(recording.steps) * cut // CUTS
    while recording.steps[at][0][0].at == recording.steps[at - 1][0][0].at:
        at += 1  # what repacks keeps its target while an instant lasts: cut between two instants
    scheduler = fresh(recording)
    scheduler.replay(recording.facts_of(recording.steps[:at]))
    for events, decisions in recording.steps[at : at + FOLLOWING]:
        assert list(scheduler.step(*events)) == decisions
