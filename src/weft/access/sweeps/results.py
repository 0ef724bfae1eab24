"""The results of a sweep (pure): which parameters and metrics there are, their order, and the best trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from weft.access.sweeps.early_stop import parse_rule, rank_of
from weft.errors import InputError, UnknownName

USUAL_METRIC: Final = "loss"
OTHER_KEYS: Final = ("job", "name", "step", "time")


class TrialResult(Protocol):
    """The figures of a trial."""

    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def params(self) -> Mapping[str, str]: ...

    @property
    def metrics(self) -> Mapping[str, float | None]: ...

    @property
    def step(self) -> int | None: ...

    @property
    def time_s(self) -> float: ...


T = TypeVar("T", bound=TrialResult)


class Target(NamedTuple):
    """The metric by which trials are compared. Empty: they report none."""

    metric: str = ""
    goal: str = "min"


def parameter_names(trials: Iterable[TrialResult]) -> list[str]:
    """Return the parameters in the order in which they first occur."""
    return list(dict.fromkeys(name for trial in trials for name in trial.params))


def metric_names(trials: Iterable[TrialResult]) -> list[str]:
    return list(dict.fromkeys(name for trial in trials for name in trial.metrics))


def choose_target(trials: Sequence[TrialResult], early_stop: str, metric: str = "", goal: str = "") -> Target:
    """Return what to compare trials by: what the user asks for, the metric of the sweep's rule, the loss, or the first
    metric."""
    rule = parse_rule(early_stop) if early_stop else None
    known = metric_names(trials)
    if metric and known and metric not in known:
        raise UnknownName("metric", metric[:80], known)
    usual = USUAL_METRIC if USUAL_METRIC in known else next(iter(known), "")
    found = metric or (rule.metric if rule is not None else usual)
    of_rule = rule.goal if rule is not None and rule.metric == found else "min"
    return Target(found, goal or of_rule)


def best_trial(trials: Iterable[TrialResult], target: Target) -> str:
    """Return the id of the best trial; empty: none has reported a finite value."""
    known = [trial for trial in trials if trial.metrics.get(target.metric) is not None]
    best = min(known, key=lambda trial: rank_of(trial.metrics[target.metric], target.goal), default=None)
    return best.id if best is not None else ""


def sort_trials(trials: Sequence[T], key: str, target: Target) -> list[T]:
    """Return trials sorted by a metric, the best first, or by a parameter, the job, its name, step or time. Unknown
    values come last."""
    if key in metric_names(trials):
        return sorted(trials, key=lambda trial: rank_of(trial.metrics.get(key), target.goal))
    if key in parameter_names(trials):
        return sorted(trials, key=lambda trial: _natural(trial.params.get(key, "")))
    if key not in OTHER_KEYS:
        known = [*metric_names(trials), *parameter_names(trials), *OTHER_KEYS]
        if not metric_names(trials):
            raise InputError(
                f"no trial has reported {key[:80]!r} yet",
                hint="a trial reports with weft.train.progress(step, loss=0.5); sort by " + ", ".join(known),
            )
        raise UnknownName("column", key[:80], known)
    if key == "step":
        return sorted(trials, key=lambda trial: rank_of(trial.step, "max"))
    if key == "time":
        return sorted(trials, key=lambda trial: trial.time_s)
    return sorted(trials, key=lambda trial: _natural(trial.name)) if key == "name" else list(trials)


def _natural(text: str) -> tuple[bool, float, str]:
    """Return a key that sorts numbers by value, before other texts."""
    number = number_of(text)
    return number is None, 0.0 if number is None else number, text


def number_of(text: str) -> float | None:
    """Return the number that a text is, if it is a finite one."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if found - found == 0.0 else None
