"""The memory of policies agrees with the state, whatever happens to nodes and runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from operator import attrgetter

import pytest

from support.builders import grid
from weft.scheduling.policy_state.holdings import Holdings
from weft.scheduling.policy_state.usage import Usage
from weft.sim.faults.uncertainty import Uncertainty
from weft.sim.simulation import Setting, prepare
from weft.sim.traces.generator import GANG_MIX, generate

UNSURE = Uncertainty(mtbf_s=6000, repair_s=1200, crash_rate=0.1)
DRAWN = generate(150, seed=3, gpus_in_cluster=32, load=1.1, mix=GANG_MIX, median_s=600, mean_s=2000).jobs
JOBS = [replace(each, job=replace(each.job, retries=2)) for each in DRAWN]


@pytest.mark.parametrize(
    ("policy", "holdings"),
    [("fair-share", "_holdings"), ("qssf", "finished._holdings"), ("gittins", "_jobs._holdings")],
)
@pytest.mark.parametrize("seed", range(3))
def test_who_holds_gpus_after_nodes_were_lost(policy: str, holdings: str, seed: int) -> None:
    scheduler, engine = prepare(Setting(grid(4, 8), JOBS, policy, seed=seed, uncertainty=UNSURE))
    lost = 0
    for events in engine.instants():
        for decision in scheduler.step(*events):
            engine.execute(decision)
        memo, active = scheduler.memo, scheduler.state.active
        known: Holdings = attrgetter(holdings)(memo)
        assert known.open.keys() == active.keys()
        for job in active.values():
            assert known.open[job.id].since == job.started_at
            assert known.spent_s.get(job.id, 0.0) == pytest.approx(job.attained_s)
        if isinstance(memo, Usage):
            held = Counter[str]()
            for job in active.values():
                held[job.job.user] += max(job.gpus, 1)
            assert {user: gpus for user, gpus in memo.held.items() if gpus} == held
        lost += any(type(event).__name__ == "NodeLost" for event in events)
    assert lost > 5
