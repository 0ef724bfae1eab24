"""Teams: who gets guaranteed, borrowed and idle GPUs, and what `why` says about it."""

from __future__ import annotations

import pytest

from support.builders import Rig, grid
from weft.model import (
    Deployed,
    Job,
    Ready,
    ScaleRule,
    Service,
    Start,
    Stop,
    Task,
    Team,
    TeamRemoved,
    TeamSet,
    Where,
)
from weft.scheduling.core.explain import explain
from weft.scheduling.core.state.apply.snapshots import snapshot
from weft.scheduling.core.state.teams import Teams
from weft.scheduling.core.teams.allowances import share_out
from weft.scheduling.core.teams.check import unserved_jobs
from weft.scheduling.core.teams.context import MIN_RECLAIM_GAP_S


def rig_with(*teams: Team, policy: str = "fifo", nodes: int = 2) -> Rig:
    rig = Rig(policy, grid(nodes, 8))
    rig.tell(*(TeamSet(0.0, team) for team in teams))
    return rig


def job(id: str, team: str, gpus: int = 8, **rest: object) -> Job:
    return Job(id, gpus, task=Task(team=team), **rest)  # type: ignore[arg-type]


def stops(decisions: object) -> list[tuple[str, str]]:
    return [(each.job, each.why) for each in decisions if isinstance(each, Stop)]  # type: ignore[attr-defined]


def starts(decisions: object) -> list[str]:
    return [each.job for each in decisions if isinstance(each, Start)]  # type: ignore[attr-defined]


def test_idle_gpus_are_lent_and_given_back() -> None:
    rig = rig_with(Team("a", 8), Team("b", 8))
    assert starts(rig.submit(job("1", "b"), job("2", "b"))) == ["1", "2"]
    rig.now = 60.0
    assert stops(rig.submit(job("3", "a"))) == [("2", "reclaimed")]
    assert starts(rig.leave("2")) == ["3"]
    assert rig.job("2").preemptions == 1


def test_no_more_is_taken_back_than_needed_and_the_least_work_goes() -> None:
    rig = rig_with(Team("a", 4), nodes=1)
    rig.submit(*(job(str(number), "b", 2) for number in range(3)))
    rig.begin("0", "1", "2")
    rig.now = 200.0
    rig.submit(job("9", "b", 2))
    rig.begin("9")
    rig.now = 250.0
    assert stops(rig.submit(job("a1", "a", 2))) == [("9", "reclaimed")]


def test_a_guarantee_shifts_to_other_runs_where_the_borrowed_ones_are_spread_over_nodes() -> None:
    rig = Rig("fifo", grid(2, 2), placement="balanced")
    rig.tell(TeamSet(0.0, Team("vision", 2)), TeamSet(0.0, Team("speech", 2)))
    for number in range(4):
        rig.now += 10.0
        rig.submit(job(f"x{number}", "vision", 1))
    first, second = ({name for name in rig.active if rig.active[name][0][0] == node} for node in ("n0", "n1"))
    gone = {name for name, _ in stops(rig.submit(job("y", "speech", 2)))}
    assert gone in (first, second)
    (reason, *_) = explain(rig.scheduler, "y").reasons
    assert "team speech is guaranteed 2 GPUs and holds 0 GPUs; these give GPUs back: x" in reason.text
    assert reason.text.endswith("of team vision")
    assert starts(rig.leave(*gone)) == ["y"]
    assert stops(rig.submit(job("z", "speech", 1))) == [], "both teams have what they are guaranteed"


def test_why_names_the_lender_that_has_no_runs_which_make_room() -> None:
    rig = Rig("fifo", grid(2, 2))
    rig.tell(TeamSet(0.0, Team("vision", 3)), TeamSet(0.0, Team("speech", 2)))
    for number in range(4):
        rig.submit(job(f"x{number}", "vision", 1))
    assert stops(rig.submit(job("y", "speech", 2))) == []
    (reason, *_) = explain(rig.scheduler, "y").reasons
    assert "team speech is guaranteed 2 GPUs and holds 0 GPUs; team vision borrows 1 GPU, but no" in reason.text


def test_a_job_pinned_to_borrowed_gpus_takes_back_just_these() -> None:
    rig = rig_with(Team("a", 3), nodes=1)
    rig.submit(*(job(f"b{number}", "b", 2) for number in range(4)))
    (on_gpu_4,) = [name for name, slots in rig.active.items() if 4 in slots[0][1]]
    rig.now = 60.0
    pinned = job("p", "a", 1, where=Where(pinned=(("n0", (4,)),)))
    assert stops(rig.submit(pinned)) == [(on_gpu_4, "reclaimed")]
    assert stops(rig.submit(job("q", "a", 1, where=Where(pinned=(("n0", (5,)),))))) == [], "the same run stops already"
    assert starts(rig.leave(on_gpu_4)) == ["p", "q"]
    layer = rig.scheduler.layer()
    assert layer is not None
    assert unserved_jobs(layer) == []


def test_a_job_pinned_to_gpus_within_a_guarantee_waits() -> None:
    rig = rig_with(Team("a", 4), Team("b", 8), nodes=1)
    rig.submit(job("1", "b", 8))
    assert stops(rig.submit(job("p", "a", 1, where=Where(pinned=(("n0", (3,)),))))) == []


def test_a_team_at_its_guarantee_takes_nothing_back() -> None:
    rig = rig_with(Team("a", 8))
    rig.submit(job("1", "a"), job("2", "b"))
    assert stops(rig.submit(job("3", "a"))) == []
    assert rig.job("3").waits


def test_teams_of_a_department_lend_to_each_other_first() -> None:
    rig = rig_with(Team("d", 16), Team("d/x", 8), Team("d/y"), Team("e", 8), nodes=3)
    rig.submit(job("y1", "d/y"), job("y2", "d/y"), job("o", ""))
    found = rig.submit(job("x1", "d/x"))
    assert stops(found) == [("y2", "reclaimed")], "the department has its 16 GPUs already"
    rig.leave("y2")
    assert stops(rig.submit(job("e1", "e"))) == [("o", "reclaimed")], "what a department may use is not borrowed"


def test_the_maximum_of_a_team_holds_and_blocks_no_other_team() -> None:
    rig = rig_with(Team("a", 0, 8))
    assert starts(rig.submit(job("1", "a"), job("2", "a"), job("3", "b"))) == ["1", "3"]
    (reason, *_) = explain(rig.scheduler, "2").reasons
    assert (reason.code, reason.text) == ("Quota", "needs 8 GPUs; team a holds 8 GPUs and may hold 8 at most")
    assert starts(rig.tell(TeamSet(1.0, Team("a", 0, 16)))) == []
    assert starts(rig.exit("3")) == ["2"]


def test_a_job_that_gave_its_gpus_back_borrows_again_later() -> None:
    rig = rig_with(Team("a", 8), nodes=1)
    rig.submit(job("1", "b"))
    rig.now = 10.0
    rig.submit(job("2", "a"))
    rig.leave("1")
    rig.begin("2")
    rig.now = 20.0
    assert starts(rig.exit("2")) == []
    (reason, *_) = explain(rig.scheduler, "1", at=20.0).reasons
    assert reason.code == "Reclaimed"
    assert "took back 8 GPUs" in reason.text
    assert "may borrow again in 290 s" in reason.text
    assert rig.alarm == 10.0 + MIN_RECLAIM_GAP_S
    assert starts(rig.later(300.0)) == ["1"]


def test_borrowed_gpus_are_shared_by_weight() -> None:
    rig = rig_with(Team("a", 0, None, 3.0), Team("b"), nodes=1)
    rig.submit(job("0", "", 8))
    rig.submit(*(job(f"b{n}", "b", 1) for n in range(9)), *(job(f"a{n}", "a", 1) for n in range(9)))
    begun = starts(rig.exit("0"))
    assert sum(name.startswith("a") for name in begun) == 6
    assert sum(name.startswith("b") for name in begun) == 2


def test_a_job_that_no_node_can_hold_reserves_no_part_for_its_team() -> None:
    rig = rig_with(Team("a"), Team("b"), policy="srtf", nodes=1)
    rig.submit(job("huge", "a", 16, declared_s=5.0))
    begun = starts(rig.submit(*(job(f"b{n}", "b", 1, declared_s=10.0) for n in range(9))))
    assert len(begun) == 8


def test_teams_of_a_department_share_the_room_below_its_maximum() -> None:
    rig = rig_with(Team("d", 0, 4), Team("d/x"), Team("d/y"), nodes=1)
    rig.submit(job("0", "", 8))
    names = ("d/x", "d/y", "")
    rig.submit(*(job(f"{team or 'none'}{n}", team, 1) for n in range(9) for team in names))
    begun = starts(rig.exit("0"))
    assert sorted(name[:3] for name in begun) == ["d/x", "d/x", "d/y", "d/y", *["non"] * 4]


def test_a_plan_starts_no_weave_beyond_the_maximum_of_its_team() -> None:
    rig = rig_with(Team("a", 0, 1), policy="loom-s", nodes=1)
    rig.submit(*(job(str(n), "a", 1, declared_s=100.0) for n in range(3)), job("b", "b", 1, declared_s=900.0))
    rig.settle()
    assert sorted(rig.active) == ["0", "b"]


def test_a_service_keeps_its_least_number_of_replicas() -> None:
    rig = rig_with(Team("a", 8), nodes=1)
    template = Job("chat", 4, task=Task(team="b"))
    rig.tell(Deployed(0.0, Service("chat", template, ScaleRule("fixed", 1, 2))))
    rig.resize("chat", 2)
    assert len(rig.active) == 2
    for name in list(rig.active):
        rig.begin(name)
        rig.tell(Ready(0.0, name, 1, "n0:1"))
    found = rig.submit(job("1", "a", 4))
    assert [why for _, why in stops(found)] == ["reclaimed"]
    found = rig.submit(job("2", "a", 4))
    assert stops(found) == []


def test_a_replica_that_borrows_does_not_take_what_was_reclaimed_for_another_team() -> None:
    rig = rig_with(Team("a", 2), Team("b"), Team("c"), nodes=1)
    for name, gpus, team in (("chat", 2, "b"), ("tiny", 1, "c")):
        template = Job(name, gpus, task=Task(team=team))
        rig.tell(Deployed(0.0, Service(name, template, ScaleRule("fixed", 1, 4))))
        rig.resize(name, 4)
    assert sorted(rig.active) == ["chat.0", "chat.1", "chat.2", "chat.3"], "the replicas of the other service wait"
    for name in list(rig.active):
        rig.begin(name)
        rig.tell(Ready(0.0, name, 1, "n0:1"))
    gone = [name for name, _ in stops(rig.submit(job("1", "a", 2)))]
    assert gone
    assert starts(rig.leave(*gone)) == ["1"]


def test_what_a_replica_borrows_counts_before_jobs_share_the_rest() -> None:
    rig = Rig("fifo")
    rig.tell(TeamSet(0.0, Team("b")), TeamSet(0.0, Team("c")))
    rig.tell(Deployed(0.0, Service("chat", Job("chat", 2, task=Task(team="b")), ScaleRule("fixed", 1, 1))))
    waiting = [job(f"b{at}", "b", 1) for at in range(4)] + [job(f"c{at}", "c", 1) for at in range(20)]
    rig.submit(*waiting)
    rig.join(*grid(1, 12))
    held = {team: sum(rig.job(name).gpus for name in rig.active if rig.job(name).job.team == team) for team in "bc"}
    assert held == {"b": 6, "c": 6}, "two of the six of b are its replica's"


def test_a_run_of_the_same_team_gives_way_by_the_policy_alone() -> None:
    rig = rig_with(Team("a", 8), policy="srtf", nodes=1)
    rig.submit(job("1", "a", 8, declared_s=1000.0))
    rig.begin("1")
    assert stops(rig.submit(job("2", "b", 8, declared_s=10.0))) == [], "the guarantee covers job 1"
    assert stops(rig.submit(job("3", "a", 8, declared_s=10.0))) == [("1", "preempted")]


def test_without_teams_any_job_runs_again_as_before() -> None:
    rig = rig_with(Team("a", 0, 8), nodes=2)
    rig.submit(job("1", "a"), job("2", "a"))
    assert starts(rig.tell(TeamRemoved(1.0, "a"))) == ["2"]
    assert rig.scheduler.teams is None


def test_teams_survive_a_snapshot() -> None:
    rig = rig_with(Team("a", 8, 16, 2.0, ("ann",)), Team("a/x", 4), nodes=1)
    rig.submit(job("1", "b"))
    rig.submit(job("2", "a"))
    again = rig.fresh()
    again.replay(snapshot(rig.state))
    assert again.state.teams.by_name == rig.state.teams.by_name
    assert again.state.jobs["1"].reclaimed_at == rig.job("1").reclaimed_at == 0.0
    assert again.state.teams.reclaimed == {"1": 0.0}


def test_departments_guarantee_what_their_teams_have() -> None:
    teams = Teams()
    for team in (Team("d/x/deep", 3), Team("d", 4), Team("d/x", 2), Team("d/y", 2, members=("bo",))):
        teams.put(team)
    assert teams.guarantees == {"d": 5, "d/x": 3, "d/x/deep": 3, "d/y": 2}
    assert teams.path("d/x/deep") == ("d", "d/x", "d/x/deep")
    assert teams.path("d/z") == ("d",)
    assert (teams.team_of("bo"), teams.team_of("al")) == ("d/y", "")


@pytest.mark.parametrize(
    ("supply", "demands", "weights", "parts"),
    [
        (10, {"a": 20, "b": 20}, {"a": 1, "b": 1}, {"a": 5, "b": 5}),
        (10, {"a": 20, "b": 20}, {"a": 3, "b": 1}, {"a": 7.5, "b": 2.5}),
        (10, {"a": 2, "b": 20}, {"a": 3, "b": 1}, {"a": 2, "b": 8}),
        (10, {"a": 2, "b": 3}, {"a": 1, "b": 1}, {"a": 2, "b": 3}),
        (0, {"a": 2}, {"a": 1}, {"a": 0}),
    ],
)
def test_shares_of_borrowed_gpus(
    supply: float, demands: dict[str, float], weights: dict[str, float], parts: dict[str, float]
) -> None:
    assert share_out(supply, demands, weights) == pytest.approx(parts)
