from __future__ import annotations

import pytest

from weft.access.jobspec.trials import SweepPlan, new_sweep_name, require_sweep, trial_specs
from weft.access.wire.convert import pairs
from weft.errors import InputError

ROWS = [{"lr": "0.1", "opt": "a/b c"}, {"lr": "0.01", "opt": "sgd"}]


def plan(*command: str, **changes: object) -> SweepPlan:
    return SweepPlan("s-1", command, ROWS, {})._replace(**changes)  # type: ignore[arg-type]


def test_each_trial_has_its_values() -> None:
    first, second = trial_specs(plan("train", "--lr={lr}", "{opt}", "{{x}} {sweep} {index} {params.lr}"))
    assert list(first.command) == ["train", "--lr=0.1", "a/b c", "{x} s-1 0 0.1"]
    assert list(second.command) == ["train", "--lr=0.01", "sgd", "{x} s-1 1 0.01"]
    assert dict(pairs(first.params)) == ROWS[0]
    assert (first.name, first.group, first.sweep) == ("s-1-0", "s-1", "s-1")


def test_a_script_gets_variables_so_that_values_stay_text() -> None:
    (first, _) = trial_specs(plan("sh", "-c", "echo {opt} '{lr}' {index}"))
    assert first.command[2] == "echo \"${WEFT_PARAM_OPT}\" ''\"${WEFT_PARAM_LR}\"'' 0"


def test_names_come_from_a_template() -> None:
    first, second = trial_specs(plan("t", "{lr}", name="lr{lr}-{opt}-{index}"))
    assert (first.name, second.name) == ("lr0.1-a-b-c-0", "lr0.01-sgd-1")


def test_flags_and_fixed_params_go_to_every_trial() -> None:
    given = {"gpus": "2", "params": ["model=bert"], "comment": "x"}
    (first, _) = trial_specs(plan("t", "{lr}", "{opt}", "{model}", given=given, early_stop="asha loss min 10 3"))
    assert (first.gpus, first.comment, first.early_stop) == (2, "x", "asha loss min 10 3")
    assert dict(pairs(first.params)) == {"model": "bert", **ROWS[0]}


@pytest.mark.parametrize(
    ("command", "changes", "says"),
    [
        (("t", "{lr}", "{opt}", "{wd}"), {}, "{wd} in the command or the name is no parameter"),
        (("t", "{lr}", "{opt}", "{}"), {}, "{} in the command"),
        (("t", "{lr}"), {}, "'opt' is not used"),
        (("t", "{lr}", "{opt}"), {"given": {"params": ["lr=1"]}}, "--param lr is also a parameter"),
        (("t", "{lr}", "{opt}"), {"rows": []}, "no parameters"),
        (("t", "{lr}", "{opt}"), {"early_stop": "asha"}, "not a rule of early stopping"),
        (("t", "{lr}", "{opt}"), {"sweep": "a/b"}, "cannot be the name of a sweep"),
    ],
)
def test_plans_that_do_not_fit(command: tuple[str, ...], changes: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says.replace("{", r"\{").replace("}", r"\}")):
        trial_specs(plan(*command, **changes))


def test_an_unused_parameter_may_be_allowed() -> None:
    assert len(trial_specs(plan("t", allows_unused=True))) == 2


def test_names_of_sweeps() -> None:
    assert new_sweep_name(["python", "/a/train.py", "x"], []) == "train-1"
    assert new_sweep_name(["python", "train.py"], ["train-1", "train-9", "train-x", "other-20"]) == "train-10"
    assert new_sweep_name(["/usr/bin/env"], []) == "env-1"
    assert require_sweep("", ["a", "b"]) == "b"
    with pytest.raises(InputError, match="unknown sweep 'c'"):
        require_sweep("c", ["a"])
