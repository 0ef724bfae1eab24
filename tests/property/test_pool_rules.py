"""Pools grow and shrink by their rules, whatever jobs, provider and workers do."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from weft.model import Pool
from weft.server.pools.rules import (
    JOIN_TIMEOUT_S,
    MAX_FAILURES,
    UNWANTED_S,
    WAITING,
    Observed,
    Pause,
    Phase,
    Release,
    Request,
    Situation,
    plan,
)

POOL = Pool("p", "slurm", 2, 4, 3600.0, idle_s=120.0)
PHASES: tuple[Phase, ...] = ("requested", "pending", "running", "joined", "released")


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    most = draw(st.integers(1, 6))
    pool = replace(
        POOL,
        max_nodes=most,
        min_nodes=draw(st.integers(0, most)),
        backlog=draw(st.integers(1, 3)),
        idle_s=draw(st.sampled_from([0.0, 120.0])),
    )
    now = 1000.0
    times = st.sampled_from([0.0, 800.0, 890.0, 950.0, 1000.0])
    slots = draw(st.lists(st.integers(0, 9), unique=True, max_size=most))
    allocations = [
        Observed(
            f"k{slot}",
            f"p-{slot}",
            draw(st.sampled_from(PHASES)),
            draw(times),
            draw(times),
            draw(st.none() | times),
        )
        for slot in slots
    ]
    failures = draw(st.integers(0, 4))
    return Situation(
        now, pool, allocations, draw(st.integers(0, 8)), draw(st.integers(0, 6)),
        {f"p-{n}" for n in draw(st.lists(st.integers(0, 9), max_size=3))}, draw(st.booleans()),
        draw(st.sampled_from(["", "", "", "drain", "now"])), failures, draw(times) if failures else None,
    )  # fmt: skip


def requests(now: Situation) -> list[Request]:
    return [action for action in plan(now) if isinstance(action, Request)]


def released(now: Situation) -> set[str]:
    return {action.key for action in plan(now) if isinstance(action, Release)}


@given(situations())
@settings(max_examples=200)
def test_a_pool_never_has_more_than_its_most_nodes(now: Situation) -> None:
    assert len(now.allocations) + len(requests(now)) <= now.pool.max_nodes


@given(situations())
@settings(max_examples=200)
def test_a_pool_asks_for_no_more_than_jobs_or_its_least_number_of_nodes_need(now: Situation) -> None:
    live = sum(each.phase != "released" for each in now.allocations) - len(released(now))
    assert len(requests(now)) <= max(now.wanted, now.pool.min_nodes - live, 0)


@given(situations())
@settings(max_examples=200)
def test_at_most_the_backlog_waits_unless_a_gang_needs_more(now: Situation) -> None:
    asked = len(requests(now))
    waiting = sum(each.phase in WAITING for each in now.allocations)
    assert not asked or waiting + asked <= max(now.pool.backlog, now.gang)


@given(situations())
@settings(max_examples=200)
def test_slots_are_the_lowest_free_ones_and_never_given_twice(now: Situation) -> None:
    asked = [each.slot for each in requests(now)]
    taken = {*now.taken, *(each.slot for each in now.allocations)}
    free = [slot for number in range(20) if (slot := f"p-{number}") not in taken]
    assert asked == free[: len(asked)]


@given(situations())
@settings(max_examples=200)
def test_every_idle_allocation_goes_in_one_turn(now: Situation) -> None:
    """Down to the least number of nodes; those that runs hold, or that a job may still use, stay."""
    if now.removing:
        return
    idle = {
        each.key
        for each in now.allocations
        if each.phase == "joined"
        and each.idle_since is not None
        and now.now - max(each.idle_since, each.since, each.wanted_at) >= now.pool.idle_s
    }
    gone = released(now)
    live = [each for each in now.allocations if each.phase != "released"]
    kept = len(live) - len(gone)
    assert idle <= gone or kept <= now.pool.min_nodes
    busy = {each.key for each in live if each.phase == "joined" and each.idle_since is None}
    assert not busy & gone
    fresh = {each.key for each in live if each.phase == "joined" and now.now - each.wanted_at < now.pool.idle_s}
    assert not fresh & gone


@given(situations())
@settings(max_examples=200)
def test_a_crash_loop_pauses_with_its_reason_and_asks_for_nothing_more(now: Situation) -> None:
    if now.failures < MAX_FAILURES or now.removing:
        return
    pauses = [action for action in plan(now) if isinstance(action, Pause)]
    assert len(pauses) == (not now.paused)
    assert all(each.why == "CrashLoop" and str(now.failures) in each.detail for each in pauses)
    assert requests(now) == []


@given(situations())
@settings(max_examples=200)
def test_a_paused_or_removed_pool_asks_for_nothing(now: Situation) -> None:
    if now.paused or now.removing:
        assert requests(now) == []
    if now.removing == "now":
        assert released(now) == {each.key for each in now.allocations if each.phase != "released"}
    elif now.removing:
        assert not released(now) & {e.key for e in now.allocations if e.phase == "joined" and e.idle_since is None}


class SimulatedPool(RuleBasedStateMachine):
    """A pool with a provider that is slow, fails and forgets, and jobs that come and go."""

    @initialize(least=st.integers(0, 2))
    def begin(self, least: int) -> None:
        self.now, self.jobs = 0.0, 0
        self.pool = replace(POOL, min_nodes=least)
        self.allocations: dict[str, Observed] = {}
        self.failures, self.paused, self.number = 0, False, 0
        self.failed_at: float | None = None

    def situation(self) -> Situation:
        free = sum((each.phase not in ("released",) and each.idle_since is not None) or each.phase in
                   ("requested", "pending", "running") for each in self.allocations.values())  # fmt: skip
        seen = []
        for at, each in enumerate(self.allocations.values()):
            wanted = self.now if at < self.jobs else each.wanted_at
            self.allocations[each.key] = replace(each, wanted_at=wanted)
            seen.append(self.allocations[each.key])
        return Situation(
            self.now, self.pool, seen, max(self.jobs - free, 0), 0, (), self.paused, "", self.failures, self.failed_at
        )

    @rule(seconds=st.sampled_from([1.0, 10.0, 61.0, 130.0]))
    def turn(self, seconds: float) -> None:
        self.now += seconds
        for action in plan(self.situation()):
            match action:
                case Request(slot):
                    self.number += 1
                    key = f"k{self.number}"
                    self.allocations[key] = Observed(key, slot, "requested", self.now, self.now)
                case Release(key, _):
                    self.allocations[key] = replace(self.allocations[key], phase="released", since=self.now)
                case Pause(_, _):
                    self.paused = True

    @rule(jobs=st.integers(0, 9))
    def submit(self, jobs: int) -> None:
        self.jobs = jobs

    def _next(self, data: st.DataObject, *phases: Phase) -> Observed:
        return data.draw(st.sampled_from([each for each in self.allocations.values() if each.phase in phases]))

    @precondition(lambda self: any(each.phase != "joined" for each in self.allocations.values()))
    @rule(data=st.data(), fails=st.booleans())
    def progress(self, data: st.DataObject, fails: bool) -> None:
        each = self._next(data, "requested", "pending", "running", "released")
        if each.phase == "released":
            del self.allocations[each.key]
        elif fails:
            del self.allocations[each.key]
            self.failures, self.failed_at = self.failures + 1, self.now
        else:
            after: dict[Phase, Phase] = {"requested": "pending", "pending": "running", "running": "joined"}
            idle = self.now if after[each.phase] == "joined" else None
            self.allocations[each.key] = replace(each, phase=after[each.phase], since=self.now, idle_since=idle)

    @precondition(lambda self: any(each.phase == "joined" for each in self.allocations.values()))
    @rule(data=st.data(), ends=st.booleans())
    def work(self, data: st.DataObject, ends: bool) -> None:
        each = self._next(data, "joined")
        self.allocations[each.key] = replace(each, idle_since=self.now if ends else None)

    @rule()
    def resume(self) -> None:
        self.failures, self.failed_at, self.paused = 0, None, False

    @invariant()
    def never_over_its_most(self) -> None:
        assert len(getattr(self, "allocations", ())) <= POOL.max_nodes

    @invariant()
    def one_node_per_slot(self) -> None:
        slots = [each.slot for each in getattr(self, "allocations", {}).values()]
        assert len(set(slots)) == len(slots)

    @invariant()
    def goes_back_to_its_least_once_nothing_waits(self) -> None:
        """Let time pass without jobs: nothing but the least number of nodes and the busy ones is left."""
        if not hasattr(self, "allocations"):
            return
        later = max(POOL.idle_s, UNWANTED_S, JOIN_TIMEOUT_S) + 1.0
        calm = replace(self.situation(), now=self.now + later, wanted=0)
        gone = released(calm)
        kept = [each for each in calm.allocations if each.phase != "released" and each.key not in gone]
        busy = [each for each in kept if each.phase == "joined" and each.idle_since is None]
        assert len(kept) <= max(self.pool.min_nodes, len(busy))


TestSimulatedPool = SimulatedPool.TestCase
TestSimulatedPool.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
