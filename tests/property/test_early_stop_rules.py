"""Rules of early stopping on sweeps played step by step, in any order of arrival."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.access.sweeps.early_stop import Rule, Trial, Verdict, judge_halving, parse_rule
from weft.access.sweeps.rungs import Rungs
from weft.errors import InputError

VALUE = st.one_of(st.none(), st.integers(-3, 3).map(float))
LEVELS = 4


@dataclass
class Played:
    """One trial of a played sweep: its value at each rung, and how it fares."""

    values: list[float | None]
    rungs: list[float | None] = field(default_factory=list)
    stopped: bool = False
    ended: bool = False


@dataclass
class Sweep:
    rule: Rule
    trials: list[Played]
    released: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rungs = Rungs(self.rule)

    def view(self) -> list[Trial]:
        return [Trial(str(at), tuple(t.rungs), t.stopped, t.ended) for at, t in enumerate(self.trials)]

    def advance(self, at: int, skip: int) -> None:
        """Let a trial arrive at its next rung, or further, or end."""
        trial = self.trials[at]
        before = len(trial.rungs)
        reached = min(before + skip, LEVELS)
        if before == LEVELS:
            trial.ended = True
            self.apply("", 0)
            return
        trial.rungs = trial.values[:reached]
        self.apply(str(at), before)

    def apply(self, arrived: str, before: int) -> None:
        stop, release = judge(self.rule, self.view(), arrived, before)
        if self.rule.kind == "asha":
            assert (stop, release) == self.decide_as_they_come(arrived), "sorting at once and step by step agree"
        assert set(stop) <= {arrived}
        assert not set(stop) & set(release)
        for name in stop:
            self.trials[int(name)].stopped = True
        for name in release:
            assert self.trials[int(name)].stopped
            self.trials[int(name)].stopped = False
            self.released.append(int(name))

    def decide_as_they_come(self, arrived: str) -> Verdict:
        for trial in self.view():
            self.rungs.put(trial.id, trial.rungs)
        return self.rungs.decide(
            arrived, lambda at: self.trials[int(at)].stopped, lambda at: self.trials[int(at)].ended
        )

    def playable(self) -> list[int]:
        return [at for at, trial in enumerate(self.trials) if not trial.stopped and not trial.ended]


def judge(rule: Rule, trials: list[Trial], arrived: str = "", before: int = 0) -> Verdict:
    if rule.kind == "halving":
        return judge_halving(rule, trials, arrived, before)
    rungs, by_id = Rungs(rule), {trial.id: trial for trial in trials}
    for trial in trials:
        rungs.put(trial.id, () if trial.failed else trial.rungs)
    rungs.check_all()
    return rungs.decide(arrived, lambda at: by_id[at].stopped, lambda at: by_id[at].ended)


def is_better(one: float | None, other: float | None, goal: str) -> bool:
    if one is None or other is None:
        return one is not None and other is None
    return one < other if goal == "min" else one > other


@st.composite
def played(draw: st.DrawFn, kind: str, most: int = 2) -> Sweep:
    rule = Rule(kind, "loss", draw(st.sampled_from(["min", "max"])), 1, draw(st.integers(2, 4)))
    count = draw(st.integers(1, 9))
    trials = [Played(draw(st.lists(VALUE, min_size=LEVELS, max_size=LEVELS))) for _ in range(count)]
    sweep = Sweep(rule, trials)
    for _ in range(count * (LEVELS + 2) * 2):
        playable = sweep.playable()
        if not playable:
            break
        sweep.advance(draw(st.sampled_from(playable)), draw(st.integers(1, most)))
    while playable := sweep.playable():  # to the end, in order
        sweep.advance(playable[0], 1)
    return sweep


@pytest.mark.parametrize("kind", ["asha", "halving"])
@settings(max_examples=30)
@given(data=st.data())
def test_a_sweep_comes_to_an_end_with_a_winner(kind: str, data: st.DataObject) -> None:
    sweep = data.draw(played(kind))
    assert any(trial.ended for trial in sweep.trials), "at least one trial runs to its end"
    assert all(trial.ended or trial.stopped for trial in sweep.trials)
    assert len(sweep.trials) > 1 or sweep.trials[0].ended, "a trial alone is never stopped"


@pytest.mark.parametrize("kind", ["asha", "halving"])
@settings(max_examples=30)
@given(data=st.data())
def test_a_stopped_trial_is_not_better_than_all_that_went_on(kind: str, data: st.DataObject) -> None:
    sweep = data.draw(played(kind, 2 if kind == "asha" else 1))
    for trial in sweep.trials:
        if not trial.stopped:
            continue
        rung = len(trial.rungs) - 1
        others = [
            t
            for t in sweep.trials
            if t is not trial and len(t.rungs) > rung and not (t.stopped and len(t.rungs) == rung + 1)
        ]
        assert any(not is_better(trial.rungs[rung], t.rungs[rung], sweep.rule.goal) for t in others)


@settings(max_examples=30)
@given(played("halving", 1))
def test_halving_lets_one_of_factor_continue(sweep: Sweep) -> None:
    for rung in range(LEVELS):
        arrived = [t for t in sweep.trials if len(t.rungs) > rung]
        on = [t for t in arrived if len(t.rungs) > rung + 1 or t.ended]
        assert len(on) == min(max(len(arrived) // sweep.rule.factor, 1), len(arrived))


@settings(max_examples=30)
@given(st.permutations(range(9)))
def test_halving_does_not_depend_on_the_order(order: list[int]) -> None:
    sweep = Sweep(Rule("halving", "loss", "min", 1, 3), [Played([float(at)] * LEVELS) for at in range(9)])
    for at in order:
        sweep.advance(at, 1)
    assert [at for at, t in enumerate(sweep.trials) if not t.stopped] == [0, 1, 2]
    for at in (2, 0, 1):
        sweep.advance(at, 1)
    assert [at for at, t in enumerate(sweep.trials) if not t.stopped] == [0]


def test_asha_by_hand() -> None:
    sweep = Sweep(Rule("asha", "loss", "min", 1, 2), [Played([value] * LEVELS) for value in (3.0, 2.0, 1.0, 4.0)])
    sweep.advance(0, 1)
    assert not sweep.trials[0].stopped, "the first is the best so far"
    sweep.advance(1, 1)
    assert not sweep.trials[1].stopped
    sweep.advance(3, 1)
    assert sweep.trials[3].stopped
    sweep.advance(2, 1)
    assert [t.stopped for t in sweep.trials] == [False, False, False, True]
    sweep.advance(2, 1)
    sweep.advance(0, 1)
    assert sweep.trials[0].stopped, "the second at the next rung, of two"


def test_asha_resumes_a_trial_that_becomes_one_of_the_best() -> None:
    sweep = Sweep(Rule("asha", "loss", "min", 1, 2), [Played([value] * LEVELS) for value in (1.0, 2.0, 5.0, 6.0)])
    for at in range(4):
        sweep.advance(at, 1)
    assert sweep.released == [1], "with four trials, two continue"


def test_a_trial_that_finishes_is_not_stopped() -> None:
    trials = [Trial("a", (1.0,)), Trial("b", (2.0,), ended=True)]
    assert judge(Rule("asha", "loss"), trials, "b") == ((), ())
    assert judge(Rule("halving", "loss"), trials, "b") == ((), ())


def test_halving_goes_on_when_the_last_trial_fails() -> None:
    trials = [Trial("a", (1.0,), stopped=True), Trial("b", (2.0,), stopped=True), Trial("c", ended=True)]
    assert judge(Rule("halving", "loss", "min", 1, 2), trials) == ((), ("a",))


def test_halving_leaves_a_trial_alone_that_a_user_released() -> None:
    trials = [Trial("a", (1.0,)), Trial("b", (2.0, 2.0))]
    assert judge(Rule("halving", "loss", "min", 1, 2), trials, "b", 1) == ((), ())


def test_rungs_and_texts() -> None:
    rule = Rule("asha", "loss", "min", 10, 3)
    assert [rule.rungs_at(step) for step in (0, 9, 10, 29, 30, 90, 269, 270)] == [0, 0, 1, 1, 2, 3, 3, 4]
    assert parse_rule(str(rule)) == rule
    assert parse_rule("halving acc") == Rule("halving", "acc", "min", 10, 3)


@pytest.mark.parametrize(
    "text", ["", "asha", "best loss", "asha loss low", "asha loss min 0", "asha loss min 1 1", "a b c d e f"]
)
def test_rules_that_are_wrong(text: str) -> None:
    with pytest.raises(InputError):
        parse_rule(text)


def test_a_trial_that_failed_takes_no_place_among_the_best() -> None:
    for kind in ("asha", "halving"):
        trials = [
            Trial("0", (1.0,), ended=True, failed=True),
            Trial("1", (2.0,), stopped=True),
            Trial("2", (3.0,), True),
        ]
        assert judge(Rule(kind, "loss", "min", 1, 2), trials).release == ("1",)
    rungs = Rungs(Rule("asha", "loss", "min", 1, 2))
    for at in range(3):
        rungs.put(str(at), (float(at),))
    rungs.check_all()
    assert rungs.decide("", lambda at: at == "1", lambda _: False).release == ()
    rungs.drop("0")
    assert rungs.decide("", lambda at: at == "1", lambda _: False).release == ("1",)
