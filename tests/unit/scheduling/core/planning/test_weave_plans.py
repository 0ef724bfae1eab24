"""Plans that weave: runs stay where they are and get other partners; what cannot be woven runs alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from support.builders import Rig, grid, node, starts, stops
from support.state_checks import check
from weft.model import (
    Blocked,
    Cordoned,
    Decision,
    Job,
    Node,
    PerRank,
    Profile,
    Profiled,
    Rewoven,
    Seconds,
    Slots,
    Submitted,
    Unwoven,
    Wake,
)
from weft.scheduling.core.ports import Ask, JobView, Replanner, View
from weft.scheduling.core.queue.protection import Protection
from weft.scheduling.core.state.apply.snapshots import snapshot
from weft.scheduling.core.state.state import State

DATA, GPU, NET = (
    Profile("data", 1.0, 0.9, 0.05, 0.05),
    Profile("gpu", 1.0, 0.05, 0.9, 0.05),
    Profile("net", 1.0, 0.05, 0.05, 0.9),
)


@dataclass(frozen=True)
class Told(Replanner):
    """Asks for what the test says, most wanted first."""

    weaves = True
    preempts = True
    plans: tuple[list[str], ...] = ((),)  # type: ignore[assignment]

    def key(self, job: JobView, now: Seconds) -> float:
        return job.seq

    def rank(self, view: View) -> Iterable[Ask]:
        wanted = [tuple(group.split("+")) for group in self.plans[0]]
        return [Ask(jobs, view.job(jobs[0]).gpus) for jobs in wanted]


class Weaves:
    """A cluster on which weaves are what the test says, and every run does as told."""

    def __init__(self, nodes: Sequence[Node], *jobs: Job, protection: Protection | None = None) -> None:
        self.plan: list[str] = []
        options: dict[str, Any] = {} if protection is None else {"protection": protection}
        self.rig = Rig(Told((self.plan,)), nodes, **options)
        self.rig.submit(*jobs)

    def want(self, *groups: str, settle: bool = True) -> list[Decision]:
        """Plan these groups; return all decisions until every run does as told."""
        before = len(self.rig.facts)
        self.plan[:] = groups
        self.rig.now += 10
        self.rig.tell(Wake(self.rig.now))
        if settle:
            self.rig.settle()
        check(self.rig.state, self.rig.facts)
        return [fact for fact in self.rig.facts[before:] if isinstance(fact, Decision)]

    def on(self, job: str) -> Slots:
        return self.rig.job(job).slots

    def weave(self, job: str) -> tuple[str, ...]:
        return self.rig.job(job).weave


def rewoven(decisions: Iterable[Decision]) -> dict[str, tuple[str, ...]]:
    return {d.job: d.weave for d in decisions if isinstance(d, Rewoven)}


def jobs(names: str, gpus: int = 2, **rest: object) -> list[Job]:
    return [Job(name, gpus, **rest) for name in names]  # type: ignore[arg-type]


def test_partners_change_without_a_restart() -> None:
    weaves = Weaves(grid(2, 2), *jobs("abcd"))
    weaves.want("a+b", "c+d")
    places = {name: weaves.on(name) for name in "abcd"}
    decided = weaves.want("a+b+c", "d")
    assert stops(decided) == {"c": "moved"}
    assert rewoven(decided) == {"a": ("a", "b", "c"), "b": ("a", "b", "c"), "d": ()}
    assert starts(decided) == {"c": places["a"]}
    assert weaves.on("d") == places["d"]


def test_a_weave_goes_where_most_of_its_members_are() -> None:
    weaves = Weaves(grid(2, 2), *jobs("abcde"))
    weaves.want("a+b", "c+d+e")
    there = weaves.on("c")
    decided = weaves.want("a+c+d", "b+e")
    assert (weaves.on("a"), stops(decided)) == (there, {"a": "moved", "e": "moved"})
    assert weaves.rig.job("b").run == weaves.rig.job("c").run == 1


def test_a_run_whose_partner_goes_stays_and_runs_alone() -> None:
    weaves = Weaves(grid(1, 2), *jobs("ab"))
    weaves.want("a+b")
    decided = weaves.want("a")
    assert (stops(decided), rewoven(decided)) == ({"b": "preempted"}, {"a": ()})


def test_a_large_job_without_gpus_moves_as_few_small_ones_as_needed() -> None:
    weaves = Weaves(grid(2, 2), *jobs("abc", 1), *jobs("x", 2))
    weaves.want("a", "b", "c")
    decided = weaves.want("x", "a", "b+c")
    assert len(weaves.on("x")) == 1
    assert len(stops(decided)) <= 2
    assert weaves.on("b") == weaves.on("c")


def test_a_newcomer_waits_until_the_one_that_leaves_is_gone() -> None:
    weaves = Weaves(grid(1, 2), *jobs("abc"))
    weaves.want("a+b")
    decided = weaves.want("a+c", settle=False)
    assert (stops(decided), rewoven(decided), starts(decided)) == ({"b": "preempted"}, {"a": ("a", "c")}, {})
    assert starts(weaves.rig.leave("b")) == {"c": weaves.on("a")}
    assert weaves.rig.job("c").woven_at == weaves.rig.job("a").woven_at


@pytest.mark.parametrize("fact", [None, Unwoven(15.0, "a", 1, "hangs")])
def test_a_snapshot_of_a_weave_that_changes_can_be_restored(fact: Unwoven | None) -> None:
    """A run that stops has its old weave, the one that stays its new one; an unwoven run has none."""
    weaves = Weaves(grid(1, 2), *jobs("abc"))
    weaves.want("a+b")
    if fact is None:
        weaves.want("a+c", settle=False)
    else:
        assert weaves.rig.state.apply(fact)
    again = State()
    assert all(again.apply(each) for each in snapshot(weaves.rig.state))
    check(again)
    assert {job.id: (job.weave, job.slots) for job in again.active.values()} == {
        job.id: (job.weave, job.slots) for job in weaves.rig.state.active.values()
    }


def test_a_protected_run_is_rewoven_where_it_is_and_not_stopped() -> None:
    weaves = Weaves(grid(2, 2), *jobs("abcd"), protection=Protection(min_run_s=1000.0))
    weaves.want("a+b", "c+d")
    before = weaves.on("a")
    decided = weaves.want("a+c", "b+d")
    assert stops(decided) == {}, "each of them is protected, and the plan would move two"
    assert (weaves.on("a"), weaves.weave("a")) == (before, ("a", "b"))


@pytest.mark.parametrize("event", [Cordoned(5.0, "n0", "Drained"), Blocked(5.0, "n0", 0, "DirtyGpu")])
def test_runs_stay_on_gpus_that_are_taken_out_of_use_and_nothing_joins_them(event: Cordoned | Blocked) -> None:
    weaves = Weaves(grid(2, 2), *jobs("abc"))
    weaves.want("a+b")
    weaves.rig.now = 5.0
    place = weaves.on("a")
    assert place[0][0] == "n0"
    weaves.rig.tell(event)
    decided = weaves.want("a+b+c")
    assert (stops(decided), starts(decided)) == ({}, {})
    decided = weaves.want("c")
    assert (stops(decided), starts(decided)) == ({}, {"c": (("n1", (0, 1)),)})
    assert weaves.weave("a") == ("a", "b")


def test_a_weave_needs_the_measured_memory_of_all_members() -> None:
    big = Profile("big", 1.0, 0.5, 0.5, 0.0, memory_mb=600)
    weaves = Weaves([node("n0", 2, memory_mb=1000)], *jobs("ab", profile=big, memory_mb=PerRank(100)))
    weaves.want("a")
    decided = weaves.want("a+b")
    assert (starts(decided), stops(decided)) == ({}, {}), "600 MB twice is more than 1,000"


# ---- what the policy weaves


def muri(*submitted: Job, nodes: Sequence[Node] = grid(1, 1), policy: str = "muri-l") -> Rig:
    rig = Rig(policy, nodes)
    rig.submit(*submitted)
    rig.settle()
    return rig


def test_jobs_without_a_profile_are_not_woven() -> None:
    rig = muri(Job("a", profile=DATA), Job("b"))
    assert [job.id for job in rig.state.active.values()] == ["a"]
    rig = muri(Job("a", profile=DATA), Job("b", profile=GPU))
    assert rig.job("a").weave == rig.job("b").weave == ("a", "b")


def test_a_stored_profile_lets_a_waiting_job_join() -> None:
    rig = muri(Job("a", profile=DATA), Job("b", profile_key="mine"))
    assert rig.job("b").status == "waiting"
    rig.now = 400.0
    decided = rig.tell(Profiled(400.0, "mine", 1, "", GPU, "run"))
    assert rewoven(decided) == {"a": ("a", "b")}
    assert starts(decided) == {"b": rig.job("a").slots}
    assert stops(decided) == {}


def test_a_job_that_does_not_keep_to_its_turns_is_not_woven_again() -> None:
    rig = muri(Job("a", profile=DATA), Job("b", profile=GPU))
    rig.now = 400.0
    rig.tell(Unwoven(400.0, "a", 1, "hangs"))
    rig.submit(Job("c"))
    rig.settle()
    assert len(rig.state.active) == 1
    assert rig.job("a").weave == rig.job("b").weave == ()


def test_an_unwoven_run_keeps_its_gpus_and_its_partner_until_the_next_plan() -> None:
    rig = muri(Job("a", profile=DATA), Job("b", profile=GPU))
    slots, rig.now = rig.job("a").slots, 100.0
    assert rig.tell(Unwoven(100.0, "a", 1, "hangs")) == []
    assert [(job.id, job.run, job.slots) for job in rig.state.active.values()] == [("a", 1, slots), ("b", 1, slots)]
    assert (rig.state.partners(rig.job("b")), rig.state.partners(rig.job("a"))) == ([], [])
    decided = rig.tell(Submitted(100.0, Job("c", profile=NET)))
    assert stops(decided), "the next plan gives it GPUs for itself, or lets it wait"
    rig.settle()
    weaves = [job.weave for job in rig.state.active.values()]
    assert weaves in ([()], [("b", "c")] * 2)


@pytest.mark.parametrize("policy", ["loom-s", "muri-s"])
def test_a_plan_counts_neither_the_gpus_of_a_cordoned_node_nor_its_runs(policy: str) -> None:
    """Two GPUs, two long runs that cannot be woven, and two short jobs: the shortest gets the GPU that is not
    cordoned. A plan of two groups would keep one of the long runs there."""
    busy = Profile("busy", 1.0, 0.0, 1.0, 0.0)
    lengths = {"a": 90_000.0, "b": 80_000.0, "c": 100.0, "d": 200.0}
    a, b, *short = (Job(name, 1, declared_s=length, profile=busy) for name, length in lengths.items())
    rig = muri(a, b, nodes=grid(2, 1), policy=policy)
    cordoned = rig.active["a"][0][0]
    rig.tell(Cordoned(rig.now, cordoned, "Drained"))
    rig.submit(*short)
    rig.settle()
    assert sorted(rig.active) == ["a", "c"]
    assert rig.active["a"][0][0] == cordoned


def test_a_weave_of_which_one_is_cancelled_goes_on() -> None:
    rig = muri(Job("a", profile=DATA), Job("b", profile=GPU), Job("c", profile=NET))
    rig.now = 400.0
    rig.cancel("b")
    rig.settle()
    assert rig.job("a").run == rig.job("c").run == 1
    assert rig.job("a").weave == rig.job("c").weave == ("a", "c")


def test_members_have_the_places_of_the_ask_and_a_running_weave_keeps_them() -> None:
    weaves = Weaves(grid(2, 2), *jobs("abcd"))
    weaves.want("c+a+b", "d")
    assert weaves.weave("a") == ("c", "a", "b"), "in lock-step the cycle depends on the order"
    assert not rewoven(weaves.want("a+b+c", "d")), "the same members stay as they are"
    decided = weaves.want("b+a", "d+c")
    assert {weaves.weave(name) for name in "ab"} == {("b", "a")}
    assert stops(decided) == {"c": "moved"}


def test_muri_gives_the_members_the_places_of_the_best_cycle() -> None:
    """Two jobs that load data for long do so at the same time only in adjacent places."""
    short = Profile("short", 0.3, 0.1, 0.1, 0.1)
    shapes = {"a": DATA, "b": short, "c": DATA, "d": short}
    submitted = [Job(name, profile=shape) for name, shape in shapes.items()]
    rig = muri(*submitted, policy="muri-l:order=slots:contention=none")
    kinds = [shapes[name] for name in rig.job("a").weave]
    assert len(kinds) == 4
    assert kinds not in ([DATA, short, DATA, short], [short, DATA, short, DATA])
    rig = muri(*submitted, policy="muri-l:order=fair")
    assert rig.job("a").weave == ("a", "b", "c", "d"), "under tokens any order is as good"
