"""The contract of every policy while teams share the GPUs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Literal

import pytest

from support.builders import Recording, Rig, grid, profile
from support.state_checks import double_booked, snapshot
from weft.model import Job, Stop, Task, Team, TeamSet
from weft.scheduling.core.state.apply.snapshots import snapshot as summed_up
from weft.scheduling.core.teams.check import unserved_jobs
from weft.scheduling.core.teams.context import MIN_RECLAIM_GAP_S
from weft.scheduling.plugins import registry
from weft.sim.simulation import Setting, prepare
from weft.sim.traces.generator import GANG_MIX, generate

POLICIES = sorted(registry.registered_plugins("weft.policies"))
TEAMS = (
    Team("audio", 8), Team("vision", 16, 24, 2.0), Team("text", 4), Team("text/search", 2), Team("text/chat", 2),
)  # fmt: skip
OWNERS = ("audio", "vision", "text/search", "text/chat", "")
Model = Literal["real", "muri"]

every_policy = pytest.mark.parametrize("policy", POLICIES)
both_models = pytest.mark.parametrize("model", ["real", "muri"])


@cache
def run(policy: str, model: Model) -> tuple[Recording, list[str]]:
    """Return the simulation, and the jobs that at some instant could have had guaranteed GPUs and had none."""
    trace = generate(45, seed=3, gpus_in_cluster=32, load=1.4, mix=GANG_MIX, median_s=300, mean_s=900)
    jobs = [
        replace(each, job=replace(each.job, task=Task(team=OWNERS[number * 7 % 5])))
        for number, each in enumerate(trace.jobs)
    ]
    setting = Setting(grid(4, 8), jobs, policy, model=model, teams=TEAMS)
    scheduler, engine = prepare(setting)
    recording, unserved = Recording(setting, scheduler), list[str]()
    for events in engine.instants():
        if events and events[0].at > scheduler.state.now and (layer := scheduler.layer()) is not None:
            unserved += [job.id for job in unserved_jobs(layer)]
        decisions = list(scheduler.step(*events))
        recording.steps.append((list(events), decisions))
        for decision in decisions:
            engine.execute(decision)
    return recording, unserved


@both_models
@every_policy
def test_finishes_every_job_and_gives_no_gpu_twice(policy: str, model: Model) -> None:
    recording, _ = run(policy, model)
    assert [job.id for job in recording.state.jobs.values() if job.status != "done"] == []
    assert list(double_booked(recording.facts)) == []


@both_models
@every_policy
def test_keeps_the_guarantees_at_every_instant(policy: str, model: Model) -> None:
    assert run(policy, model)[1] == []


@every_policy
def test_takes_back_the_gpus_of_a_job_once_in_a_while(policy: str) -> None:
    last: dict[str, float] = {}
    for fact in run(policy, "real")[0].facts:
        if isinstance(fact, Stop) and fact.why == "reclaimed":
            assert fact.at - last.get(fact.job, -MIN_RECLAIM_GAP_S) >= MIN_RECLAIM_GAP_S
            last[fact.job] = fact.at
    assert last, "no job gave GPUs back"


@every_policy
def test_decides_the_same_after_a_replay_and_from_a_snapshot(policy: str) -> None:
    recording, _ = run(policy, "real")
    scheduler, _ = prepare(recording.setting)
    scheduler.replay(recording.facts)
    assert snapshot(scheduler.state) == snapshot(recording.state)
    again, _ = prepare(recording.setting)
    again.replay(summed_up(recording.state))
    assert again.state.teams.by_name == {team.name: team for team in TEAMS}


@every_policy
@pytest.mark.parametrize(
    "teams",
    [
        (Team("a", 4, 8), Team("b", 4)),
        (Team("a", 0, 6), Team("b", 0, None, 3.0)),
        (Team("d", 4, 12), Team("d/a", 2), Team("d/b", 0, 9)),
    ],
)
def test_leaves_no_gpu_idle_that_a_waiting_job_may_have(teams: tuple[Team, ...], policy: str) -> None:
    """The jobs that the policy likes most belong to a team that may not run all of them."""
    rig = Rig(policy, grid(4, 8))
    rig.tell(*(TeamSet(0.0, team) for team in teams))
    names = [team.name for team in teams if team.name != "d"]
    kind = profile(0.1, 0.8, 0.1)
    jobs = []
    for number in range(120):
        team, declared_s = (names[0], 100.0) if number < 50 else ((*names[1:], "")[number % 2], 9000.0)
        jobs.append(
            Job(f"j{number}", 1, declared_s=declared_s + number, profile=kind, task=Task(team=team), user="ann")
        )
    rig.submit(*jobs)
    for _ in range(6):
        rig.settle()
        assert_none_idles(rig)
        rig.later(50.0)
        for name in list(rig.active)[::5]:
            rig.exit(name)


def assert_none_idles(rig: Rig) -> None:
    layer = rig.scheduler.layer()
    assert layer is not None
    idle = rig.state.resources.idle.total()
    allowed = [job.id for job in rig.state.waiting.values() if layer.refusal(job) is None]
    assert not (idle and allowed), f"{idle} GPUs are idle, while {len(allowed)} jobs wait that may have them"
    for team in rig.state.teams.by_name.values():
        assert team.max_gpus is None or layer.standing.held.get(team.name, 0.0) <= team.max_gpus
