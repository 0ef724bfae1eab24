"""The state of a weave under any sequence of operations: no two members in one stage, no member waits for nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from weft.train.weave import layout, state
from weft.train.weave.layout import DATA, GPU, NET, ORDERS, BadState, View, create

LIMIT_S = 5.0
PLACES = st.integers(0, 3)
STAGES = st.sampled_from([GPU, NET])


class Weave(RuleBasedStateMachine):
    """Four members that ask, work, give up, die and come back; the model knows what each was told."""

    order = "fair"

    @initialize()
    def create(self) -> None:
        self.raw, self.now = create(self.order, 4, LIMIT_S), 100.0
        self.present: set[int] = set()
        self.waiting: dict[tuple[int, int], int] = {}
        self.held: dict[tuple[int, int], float] = {}
        """Turns that members have; the time at which they began."""

    def apply(self, raw: bytes, wakes: list[state.Wake]) -> None:
        self.raw = raw
        for place, stage, ticket in wakes:
            assert self.waiting.pop((place, stage)) == ticket, "a member that does not wait was woken"
            self.held[place, stage] = self.now

    @rule(seconds=st.floats(0.001, 2.0))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(place=PLACES)
    def join(self, place: int) -> None:
        if place not in self.present:
            self.apply(*state.join(self.raw, place, self.now))
            self.present.add(place)
            view = View(self.raw)
            for stage in (GPU, NET):
                shares = [view.get(each, stage, layout.SHARE) for each in self.present]
                assert view.get(place, stage, layout.SHARE) == min(shares), "a newcomer is the least served"

    @rule(place=PLACES, stage=STAGES)
    def want(self, place: int, stage: int) -> None:
        key = place, stage
        busy = any(each[0] == place for each in (*self.held, *self.waiting))
        if place not in self.present or busy:
            return
        raw, wakes, ticket, is_held = state.want(self.raw, place, stage, self.now)
        if is_held:
            self.held[key] = self.now
        else:
            self.waiting[key] = ticket
        self.apply(raw, wakes)

    @rule(place=PLACES, stage=STAGES)
    def release(self, place: int, stage: int) -> None:
        if (place, stage) in self.held:
            del self.held[place, stage]
            raw, wakes, passed_over = state.release(self.raw, place, stage, self.now)
            assert not passed_over
            self.apply(raw, wakes)

    @rule(place=PLACES, stage=STAGES)
    def give_up(self, place: int, stage: int) -> None:
        if (place, stage) in self.waiting:
            del self.waiting[place, stage]
            self.apply(*state.give_up(self.raw, place, stage, self.now))

    @rule(place=PLACES)
    def urge(self, place: int) -> None:
        if place in self.present:
            self.apply(*state.urge(self.raw, place, self.now))

    @rule(dead=st.sets(PLACES))
    def die(self, dead: set[int]) -> None:
        """Members are killed, and another one heals. A holder over the limit is passed over."""
        for key in [key for key in self.waiting if key[0] in dead]:
            del self.waiting[key]
        late = [key for key, since in self.held.items() if self.now - since > LIMIT_S]
        for key in [key for key in self.held if key[0] in dead or key in late]:
            del self.held[key]
        self.present -= dead
        self.apply(*state.heal(self.raw, sum(1 << place for place in dead), self.now))
        for place, stage in late:
            if place not in dead:
                self.raw, wakes, passed_over = state.release(self.raw, place, stage, self.now)
                assert passed_over
                assert not wakes

    @invariant()
    def one_member_has_each_stage(self) -> None:
        for stage in (GPU, NET):
            holders = [place for place, each in self.held if each == stage]
            assert len(holders) <= 1
            assert View(self.raw).stage(stage)[0] == sum(1 << place for place in holders)

    @invariant()
    def no_member_waits_for_a_free_stage(self) -> None:
        if self.order != "slots":
            for _, stage in self.waiting:
                assert any(each == stage for _, each in self.held)

    @invariant()
    def the_state_is_valid(self) -> None:
        layout.check(self.raw)
        assert layout.from_page(layout.to_page(self.raw)) == self.raw
        assert View(self.raw).present == sum(1 << place for place in self.present)

    @precondition(lambda self: self.order == "slots" and self.waiting)
    @rule()
    def wait_in_slots(self) -> None:
        """Whatever the others do, members in lock-step get their turns: absent ones are skipped after the limit."""
        for _ in range(12):
            self.now += LIMIT_S + 1.0
            late = list(self.held)
            self.held.clear()
            self.apply(*state.heal(self.raw, 0, self.now))
            for place, stage in late:
                raw, wakes, _ = state.release(self.raw, place, stage, self.now)
                self.apply(raw, wakes)
        assert not self.waiting


@pytest.mark.parametrize("order", ORDERS)
def test_members_take_turns(order: str) -> None:
    kind = type(f"Weave_{order}", (Weave,), {"order": order})
    run_state_machine_as_test(kind, settings=settings(max_examples=60, stateful_step_count=40, deadline=None))


@settings(max_examples=300, deadline=None)
@given(raw=st.binary(max_size=layout.USED + 10))
def test_foreign_bytes_are_no_state(raw: bytes) -> None:
    with pytest.raises(BadState):
        layout.from_page(raw)


@settings(max_examples=100, deadline=None)
@given(
    damage=st.lists(st.tuples(st.integers(16, layout.USED - 1), st.integers(0, 255)), max_size=30),
    order=st.sampled_from(ORDERS), place=PLACES, stage=st.sampled_from([DATA, GPU, NET]),
)  # fmt: skip
def test_damage_is_recognised_or_harmless(damage: list[tuple[int, int]], order: str, place: int, stage: int) -> None:
    raw = bytearray(create(order, 4, LIMIT_S))
    for at, value in damage:
        raw[at] = value
    try:
        layout.check(bytes(raw))
    except BadState:
        return
    found = state.want(bytes(raw), place, stage, 100.0)[0]
    found = state.heal(found, 0b1110, 200.0)[0]
    found = state.release(found, place, stage, 201.0)[0]
    layout.check(found)


@settings(max_examples=100, deadline=None)
@given(holds=st.lists(st.floats(0.01, 0.5), min_size=3, max_size=3), rounds=st.integers(20, 60))
def test_the_member_that_was_served_least_goes_next(holds: list[float], rounds: int) -> None:
    raw, now = create("fair", 3, 60.0), 0.0
    for place in range(3):
        raw, _ = state.join(raw, place, now)
    holder = -1
    for place in range(3):
        raw, _, _, held = state.want(raw, place, GPU, now)
        holder = place if held else holder
    for _ in range(rounds):
        now += holds[holder]
        waiting = {place: View(raw).get(place, GPU, layout.SERVED) for place in range(3) if place != holder}
        raw, wakes, _ = state.release(raw, holder, GPU, now)
        assert waiting[wakes[0][0]] == min(waiting.values())
        raw, more, _, held = state.want(raw, holder, GPU, now)
        assert not held
        assert not more
        holder = wakes[0][0]


def test_a_pause_does_not_let_a_member_starve_the_others() -> None:
    raw, now = create("fair", 2, 600.0), 0.0
    for place in (0, 1):
        raw, _ = state.join(raw, place, now)
    for _ in range(100):  # member 1 writes a checkpoint meanwhile
        raw, _, _, held = state.want(raw, 0, GPU, now)
        assert held
        now += 1.0
        raw, _, _ = state.release(raw, 0, GPU, now)
    in_a_row = 0
    raw, _, _, held = state.want(raw, 1, GPU, now)
    assert held
    raw, _, _, held = state.want(raw, 0, GPU, now)
    assert not held
    for _ in range(100):
        now += 0.5
        raw, wakes, _ = state.release(raw, 1, GPU, now)
        in_a_row += 1
        raw, _, _, held = state.want(raw, 1, GPU, now)
        if wakes[0][0] == 0:
            break
    assert in_a_row * 0.5 <= state.MAX_LAG_S + 1.0
