from __future__ import annotations

import pytest

from weft.access.sweeps.results import Target, best_trial, choose_target, sort_trials
from weft.errors import InputError, UnknownName
from weft.lab.report.sweep_picture import TrialPoint, draw_sweep
from weft.views.answers.sweeps import TrialView

TRIALS = [
    TrialView("1", params={"lr": "0.1"}, metrics={"acc": 0.5, "loss": 2.0}, step=3),
    TrialView("2", params={"lr": "0.01"}, metrics={"acc": 0.9, "loss": 1.0}, step=9),
    TrialView("3", params={"lr": "1"}, metrics={"acc": 0.1, "loss": None}),
    TrialView("4", params={"lr": "auto"}),
]


def ids(trials: list[TrialView]) -> str:
    return "".join(trial.id for trial in trials)


@pytest.mark.parametrize(
    ("key", "goal", "order"),
    [("loss", "min", "2134"), ("loss", "max", "1234"), ("acc", "max", "2134"), ("lr", "min", "2134"),
     ("step", "min", "2134"), ("job", "min", "1234")],
)  # fmt: skip
def test_sorting(key: str, goal: str, order: str) -> None:
    assert ids(sort_trials(TRIALS, key, Target(key, goal))) == order


def test_a_column_that_does_not_exist() -> None:
    with pytest.raises(UnknownName, match="unknown column 'los'"):
        sort_trials(TRIALS, "los", Target("loss"))
    with pytest.raises(InputError, match="no trial has reported 'loss' yet"):
        sort_trials(TRIALS[3:], "loss", Target("loss"))


def test_the_target() -> None:
    assert choose_target(TRIALS, "") == Target("loss", "min")
    assert choose_target(TRIALS, "asha acc max 1 2") == Target("acc", "max")
    assert choose_target(TRIALS, "asha acc max 1 2", "loss") == Target("loss", "min")
    assert choose_target(TRIALS, "", "acc", "max") == Target("acc", "max")
    assert choose_target(TRIALS[3:], "") == Target("", "min")
    with pytest.raises(UnknownName):
        choose_target(TRIALS, "", "f1")


def test_the_best() -> None:
    assert best_trial(TRIALS, Target("loss", "min")) == "2"
    assert best_trial(TRIALS, Target("loss", "max")) == "1"
    assert best_trial(TRIALS[2:], Target("loss")) == ""


@pytest.mark.parametrize("count", [1, 40])
def test_a_picture_of_any_trials(count: int) -> None:
    points = [
        TrialPoint({"lr": 10.0**-at, "opt": f"opt{at % 3}", "same": 1.0}, 1.0 + at, at == 0) for at in range(count)
    ]
    assert draw_sweep("s", "loss", points).startswith(b"\x89PNG")


def test_equal_results_give_equal_pictures() -> None:
    points = [TrialPoint({"opt": name}, value) for name, value in (("adam", 1.0), ("sgd", 2.0))]
    assert draw_sweep("s", "loss", points, "svg") == draw_sweep("s", "loss", points, "svg")
