"""The columns of live jobs, kept from plan to plan, are those that a fresh start would read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from support.builders import Rig, grid, profile
from weft.model import Edited, Job, NodeEndChanged, Team
from weft.scheduling.core.ports import Ask, View
from weft.scheduling.policies.loom_s import LoomS
from weft.scheduling.weaving.live_jobs import LiveJobs
from weft.sim.faults.uncertainty import Uncertainty
from weft.sim.simulation import Model, Setting, simulate
from weft.sim.traces.generator import GANG_MIX, generate


@dataclass(frozen=True)
class Watched(LoomS):
    """Compares the kept columns with fresh ones at each plan."""

    plans: list[int] = field(default_factory=list)

    def rank(self, view: View) -> Iterable[Ask]:
        asks = list(super().rank(view))
        kept, fresh = view.memo.live, LiveJobs()
        fresh.refresh(view)
        assert [job.id for job in kept.jobs] == [job.id for job in fresh.jobs]
        for column in ("seq", "submitted_at", "remaining_s", "worked_s", "rate"):
            assert getattr(kept, column).tolist() == getattr(fresh, column).tolist(), column
        assert kept.remaining_s.tolist() == [job.remaining(view.now) for job in kept.jobs]
        assert kept.worked_s.tolist() == [job.worked(view.now) for job in kept.jobs]
        for at, name in enumerate(kept.class_of.tolist()):
            mine, other = kept.classes[name], fresh.classes[fresh.class_of[at]]
            assert (mine.shape, mine.profile, mine.held) == (other.shape, other.profile, other.held)
        assert self.expect_left_s(view, kept).tolist() == self.expect_left_s(view, fresh).tolist()
        self.plans.append(len(kept.jobs))
        return asks


@pytest.mark.parametrize("teams", [(), (Team("a", 8, members=("ann",)), Team("b", 4, 12, members=("bo",)))])
@pytest.mark.parametrize(
    ("model", "estimates"), [("real", "lognormal:1"), ("muri", "lognormal:1"), ("real", "unknown")]
)
def test_kept_columns_are_those_of_a_fresh_start(model: Model, estimates: str, teams: Sequence[Team]) -> None:
    made = generate(120, seed=3, gpus_in_cluster=16, load=8.0, mix=GANG_MIX).jobs
    jobs = [replace(each, job=replace(each.job, user=("ann", "bo")[at % 2])) for at, each in enumerate(made)]
    policy = Watched()
    trouble = Uncertainty(estimates, mtbf_s=20_000, repair_s=600, crash_rate=0.1)
    simulate(Setting(grid(2, 8), jobs, policy, model=model, uncertainty=trouble, teams=teams))
    assert len(policy.plans) > 200
    assert max(policy.plans) > 20


def test_jobs_that_get_their_first_gpu_get_rows_and_others_lose_theirs() -> None:
    policy = Watched()
    rig = Rig(policy, grid(1, 1))
    rig.submit(*[Job(name, 1, declared_s=900.0) for name in "abc"], Job("d", 0, declared_s=900.0))
    rig.settle()
    rig.tell(Edited(rig.now, Job("c", 0, declared_s=900.0)))
    rig.settle()
    assert "c" in rig.active
    rig.submit(Job("e", 1), Job("f", 0))
    rig.tell(Edited(rig.now, Job("b", 1, declared_s=10.0)))
    rig.settle()
    assert len(policy.plans) > 2


def test_the_shapes_of_all_jobs_may_change_at_once() -> None:
    """Once a node leaves at a known time, shapes include the time that jobs need."""
    policy = Watched()
    rig = Rig(policy, grid(1, 2))
    rig.submit(*[Job(f"j{at}", 1, declared_s=900.0, profile=profile(0.1, 0.8, 0.1)) for at in range(6)])
    rig.settle()
    rig.tell(NodeEndChanged(10.0, "n0", 5000.0))
    rig.now = 20.0
    rig.submit(Job("x", 1, declared_s=50.0, profile=profile(0.1, 0.8, 0.1)))
    rig.settle()
    assert policy.plans[-1] == 7


def test_a_job_of_a_lost_node_that_starts_again_before_the_next_plan_has_lost_its_work() -> None:
    policy = Watched()
    rig = Rig(policy, grid(2, 1), interval_s=600.0)
    rig.submit(Job("a", 1, declared_s=5000.0))
    rig.settle()
    rig.later(700.0)
    rig.submit(Job("b", 0))  # a plan after the start
    rig.settle()
    rig.later(100.0)
    plans = len(policy.plans)
    rig.lose(rig.job("a").slots[0][0])
    assert (rig.job("a").run, len(policy.plans)) == (2, plans), "it starts without a plan"
    rig.later(900.0)
    rig.submit(Job("c", 0))
    assert len(policy.plans) > plans
