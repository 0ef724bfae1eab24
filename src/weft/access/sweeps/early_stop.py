"""Rules of early stopping (pure): successive halving, and its asynchronous form ASHA.

A rule compares the trials of a sweep by a metric at rungs: at the steps `first`, `first * factor`, `first * factor**2`
and so on. At each rung one of `factor` trials continues, and the best one always does.

- `asha` decides when a trial arrives: it continues if it is among the best of those that have come so far. A stopped
  trial continues when more arrivals make it one of the best.
- `halving` waits for all trials: each of them stops at the rung, and the best continue once the last has arrived or
  ended. A trial that another rung has left behind is not judged any more: a user who releases it wants it to end.

Stopped trials are held, not cancelled: they resume from their checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from weft.errors import InputError, UnknownName

KINDS: Final = ("asha", "halving")
GOALS: Final = ("min", "max")
DEFAULT_FIRST: Final = 10
DEFAULT_FACTOR: Final = 3
MAX_STEPS: Final = 1 << 53
MAX_FACTOR: Final = 1000
MAX_METRIC_CHARS: Final = 100
_HINT: Final = "write KIND METRIC min|max FIRST FACTOR, such as: asha loss min 10 3"


class Rule(NamedTuple):
    kind: str
    metric: str
    goal: str = "min"
    first: int = DEFAULT_FIRST
    """The step of the first rung."""
    factor: int = DEFAULT_FACTOR
    """One of this many trials continues at a rung; each rung comes after as many times the steps of the one before."""

    def __str__(self) -> str:
        return " ".join(map(str, self))

    def rungs_at(self, step: int) -> int:
        """Return how many rungs a trial has reached at this step."""
        count, at = 0, self.first
        while at <= step:
            count, at = count + 1, at * self.factor
        return count


class Trial(NamedTuple):
    id: str
    rungs: Sequence[float | None] = ()
    """The metric at each rung that it has reached; None: it was not a finite number, which is worse than any."""
    stopped: bool = False
    """True while the rule holds it."""
    ended: bool = False
    """True if it has ended, or is about to: nothing can stop or continue it."""
    failed: bool = False
    """True if it has ended without a result: it takes no place among the best."""


class Verdict(NamedTuple):
    stop: tuple[str, ...] = ()
    release: tuple[str, ...] = ()


@lru_cache(maxsize=1024)
def parse_rule(text: str) -> Rule:
    """Parse a rule as a job carries it: kind, metric, goal, first step, factor. The last three have defaults."""
    words = text.split()
    if not 2 <= len(words) <= 5:
        raise InputError(f"{text[:80]!r} is not a rule of early stopping", hint=_HINT)
    kind, metric, goal, first, factor = (*words, *("min", str(DEFAULT_FIRST), str(DEFAULT_FACTOR))[len(words) - 2 :])
    if kind not in KINDS:
        raise UnknownName("rule of early stopping", kind[:80], KINDS)
    if goal not in GOALS:
        raise UnknownName("goal", goal[:80], GOALS)
    if not metric.isprintable() or len(metric) > MAX_METRIC_CHARS:
        raise InputError(f"{metric[:80]!r} is not the name of a metric", hint=_HINT)
    return Rule(kind, metric, goal, _whole(first, 1, MAX_STEPS), _whole(factor, 2, MAX_FACTOR))


def _whole(text: str, low: int, high: int) -> int:
    from weft.inputs.quantities import parse_whole

    return parse_whole(text, low, high)


def judge_halving(rule: Rule, trials: Sequence[Trial], arrived: str = "", before: int = 0) -> Verdict:
    """Decide which trials stop and which stopped ones continue, now that one of them has arrived at a rung.

    `before` is the number of rungs that it had reached before: a report may skip some. Without `arrived`, a trial has
    ended. `weft.access.sweeps.rungs` decides for ASHA.
    """
    stop: set[str] = set()
    release: list[str] = []
    rung, cohort = 0, [trial for trial in trials if not trial.failed]
    while here := [trial for trial in cohort if len(trial.rungs) > rung]:
        is_complete = all(trial.ended or len(trial.rungs) > rung for trial in cohort)
        best = _best(rule, here, rung) if is_complete else set[str]()
        if rung >= before:
            stop |= {trial.id for trial in here if trial.id == arrived and not trial.ended and trial.id not in best}
        cohort = [trial for trial in here if trial.id in best]
        release += [t.id for t in cohort if t.stopped and not t.ended and len(t.rungs) == rung + 1]
        rung += 1
    return Verdict(tuple(stop), tuple(release))


def _best(rule: Rule, here: Sequence[Trial], rung: int) -> set[str]:
    """Return the trials that continue after a rung: one of `factor`, at least one. Of equal ones, the first."""
    ranked = sorted(here, key=lambda trial: rank_of(trial.rungs[rung], rule.goal))
    return {trial.id for trial in ranked[: count_best(rule, len(here))]}


def count_best(rule: Rule, arrived: int) -> int:
    """Return how many of those that have arrived at a rung continue."""
    return max(arrived // rule.factor, 1)


def rank_of(value: float | None, goal: str) -> tuple[bool, float]:
    """Return the key by which values sort, the best first; a value that is not known or not finite comes last."""
    if value is None:
        return True, 0.0
    return False, value if goal == "min" else -value
