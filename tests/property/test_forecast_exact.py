"""With exact durations, a forecast from any instant is what the simulation then does."""

from __future__ import annotations

import pytest

from weft.history.metrics.figures import gather
from weft.sim.clusters.reader import read_cluster
from weft.sim.costs.real import CHECKPOINT_INTERVAL_S
from weft.sim.costs.speed import ACROSS_NODES, ACROSS_SWITCHES
from weft.sim.forecast.forward import Costs, run_forward, unfinished_jobs
from weft.sim.simulation import Setting, advance, prepare, simulate
from weft.sim.traces.generator import GANG_MIX, generate

SHARING = ("muri-l", "antman")
"""Their runs change pace; the state then does not tell when a run saved last. So stopped runs lose nothing here."""
POLICIES = ("fifo", "priority", "balanced", "srtf", "srsf", "tiresias", "muri-l", "antman")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_forecast_with_exact_durations_is_the_simulation(policy: str, seed: int) -> None:
    nodes = read_cluster("3x4")
    jobs = generate(40, seed=seed, gpus_in_cluster=12, load=1.5, mix=GANG_MIX).jobs
    interval_s = 0.0 if policy in SHARING else CHECKPOINT_INTERVAL_S
    setting = Setting(nodes, jobs, policy, checkpoint_interval_s=interval_s)
    record = gather(simulate(setting).journal.read())
    happened = {each.id: (each.first_start, each.end) for each in record.jobs}
    instant = jobs[25].submit_s
    scheduler, engine = prepare(setting)
    for events in engine.instants():
        advance(scheduler, engine, events)
        if scheduler.state.now >= instant and not engine._at_once:
            break
    state = scheduler.state
    present = unfinished_jobs(state)
    waiting = [job.id for job in present if job.run == 0]
    left_s = {job.id: job.remaining(state.now) for job in present}
    later = [each for each in jobs if each.job.id not in state.jobs]
    costs = Costs(ACROSS_NODES, ACROSS_SWITCHES, interval_s)
    course = run_forward(scheduler, left_s, state.now, arrivals=later, all_arrive=True, costs=costs)
    assert {job.id for job in present} <= set(course.ends)
    for job in present:
        assert course.ends[job.id] == pytest.approx(happened[job.id][1], rel=1e-9)
    for name in waiting:
        assert course.starts[name] == pytest.approx(happened[name][0], rel=1e-9)
