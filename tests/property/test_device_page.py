"""The device page under any sequence of processes that come, work and die: no slot has two owners, no batch outlives
its process, and the factor stays in its bounds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from weft.train.device_page import layout, rules
from weft.train.device_page.layout import Owner


class Device(RuleBasedStateMachine):
    """The model knows which process has which slot and which of them works."""

    @initialize(name=st.sampled_from(layout.RULES))
    def create(self, name: str) -> None:
        self.page, self.now, self.next_pid = bytearray(layout.create(name)), 100.0, 1
        self.alive: dict[int, Owner] = {}
        self.dead: set[int] = set()
        self.busy: set[int] = set()
        self.periods = rules.Periods(rules.PRIO_BANDS)

    @rule(kind=st.sampled_from([layout.TRAINING, layout.INFERENCE]), request=st.floats(0.05, 1.0))
    def claim(self, kind: int, request: float) -> None:
        self.heal()
        owner = Owner(self.next_pid, 7 * self.next_pid, 1, kind, request, 1.0, f"job-{self.next_pid}", 1)
        self.next_pid += 1
        if len(self.alive) == layout.SLOTS:
            try:
                layout.claim(self.page, owner)
            except layout.PageFull:
                return
            raise AssertionError("a slot was claimed twice")
        index = layout.claim(self.page, owner)
        assert index not in self.alive
        self.alive[index] = owner

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), seconds=st.floats(0.0, 5.0))
    def work(self, data: st.DataObject, seconds: float) -> None:
        index = data.draw(st.sampled_from(sorted(self.alive)))
        self.now += seconds
        if index in self.busy:
            took = layout.end(self.page, index, self.now)
            assert took >= 0
            layout.set_factor(self.page, self.periods.next_factor(layout.factor(self.page), took))
            self.busy.discard(index)
        elif self.alive[index].kind == layout.INFERENCE:
            layout.begin(self.page, index, self.now)
            self.busy.add(index)
        else:
            layout.add_wait(self.page, index, seconds, 0.5)

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), is_killed=st.booleans())
    def leave(self, data: st.DataObject, is_killed: bool) -> None:
        index = data.draw(st.sampled_from(sorted(self.alive)))
        del self.alive[index]
        if is_killed:
            self.dead.add(index)
        else:
            layout.release(self.page, index)
            self.busy.discard(index)

    @rule()
    def heal_page(self) -> None:
        self.heal()

    def heal(self) -> None:
        layout.release_dead(self.page, self.dead)
        self.busy -= self.dead
        self.dead.clear()

    @invariant()
    def slots_are_those_of_the_model(self) -> None:
        if not hasattr(self, "page"):
            return
        layout.check(self.page)
        found = {slot.index: slot for slot in layout.slots(self.page)}
        assert set(found) == set(self.alive) | self.dead
        for index, owner in self.alive.items():
            assert (found[index].owner.pid, found[index].owner.job) == (owner.pid, owner.job)
            assert layout.is_owner(self.page, index, owner.pid, owner.start)
        assert layout.is_busy(self.page) == any(slot.busy for slot in found.values())
        assert {index for index, slot in found.items() if slot.busy} == self.busy
        assert (layout.contended_since(self.page) is None) == (not self.busy)


TestDevice = Device.TestCase
TestDevice.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@settings(deadline=None)
@given(st.lists(st.floats(0.0, 10.0), max_size=300), st.sampled_from([rules.PRIO_BANDS, rules.DILU_BANDS]))
def test_any_periods_leave_the_factor_between_its_floor_and_one(periods: list[float], bands: rules.Bands) -> None:
    known, factor = rules.Periods(bands), 1.0
    for seconds in periods:
        factor = known.next_factor(factor, seconds)
        assert bands.floor <= factor <= 1.0


@settings(deadline=None)
@given(
    rate=st.floats(0.01, 1.0), layer_s=st.floats(0.0005, 0.05), layers=st.integers(20, 60),
    noise=st.lists(st.floats(0.5, 1.0), min_size=60, max_size=60),
)  # fmt: skip
def test_in_a_long_contention_training_gets_at_most_its_rate(
    rate: float, layer_s: float, layers: int, noise: list[float]
) -> None:
    bucket, now, used = rules.Bucket(), 0.0, 0.0
    for part in noise[:layers]:
        now += bucket.wait_s(now, 0.0, rate, layer_s)
        bucket.end_wait(now, rate, layer_s)
        now += part * layer_s
        used += part * layer_s
    assert used <= rate * now + layer_s * 1.000001
