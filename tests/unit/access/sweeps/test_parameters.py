from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.access.sweeps.parameter_files import read_parameters
from weft.access.sweeps.parameters import combine, draw, grid, paired, parse_assignment, parse_values
from weft.errors import InputError


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.1,0.01", ["0.1", "0.01"]),
        ("1..5", ["1", "2", "3", "4", "5"]),
        ("5..1..-2", ["5", "3", "1"]),
        ("0..1..0.25", ["0", "0.25", "0.5", "0.75", "1"]),
        ("adam, sgd", ["adam", "sgd"]),
        ("1..3,10", ["1", "2", "3", "10"]),
        ("../a,../b", ["../a", "../b"]),
        ("1e-3..1e-3", ["0.001"]),
    ],
)
def test_values(text: str, values: list[str]) -> None:
    assert parse_values(text) == values


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1,,2", "a value is empty"),
        ("1..", "lacks an end"),
        ("1..5..0", "has no values"),
        ("5..1", "has no values"),
        ("1..2..3..4", "not a range"),
        ("1..nan", "not a range"),
        ("1..1000000", "1,000,000 values"),
        ("0..1..1e-30", "values"),
    ],
)
def test_values_that_are_wrong(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_values(text)


@pytest.mark.parametrize("text", ["lr", "lr=", "=1", "a b=1", "index=1"])
def test_assignments_that_are_wrong(text: str) -> None:
    with pytest.raises(InputError):
        parse_assignment(text)


def test_all_combinations_in_order() -> None:
    rows = combine(grid([("a", ["1", "2"]), ("b", ["x", "y"])]))
    assert rows == [{"a": "1", "b": "x"}, {"a": "1", "b": "y"}, {"a": "2", "b": "x"}, {"a": "2", "b": "y"}]


def test_lists_go_together() -> None:
    assert paired([("a", ["1", "2"]), ("b", ["x", "y"])]) == [{"a": "1", "b": "x"}, {"a": "2", "b": "y"}]
    with pytest.raises(InputError, match="a has 1, b has 2"):
        paired([("a", ["1"]), ("b", ["x", "y"])])


def test_too_many_combinations_say_how_many() -> None:
    with pytest.raises(InputError, match="1,000,000 trials, and 10,000 are allowed"):
        combine([[{f"p{at}": str(value)} for value in range(100)] for at in range(3)])


def test_a_parameter_is_given_once() -> None:
    with pytest.raises(InputError, match="'a' is given twice"):
        combine([[{"a": "1"}], [{"a": "2"}]])


@given(
    st.floats(1e-6, 1e6), st.floats(1.0, 1e6), st.integers(0, 2**31), st.sampled_from(["log:", "", "uniform:"]),
    st.integers(1, 20),
)  # fmt: skip
def test_draws_stay_within_their_bounds(low: float, ratio: float, seed: int, kind: str, count: int) -> None:
    high = low * ratio
    drawn = draw("lr", f"{kind}{low!r}..{high!r}", count, seed)
    assert len(drawn) == count
    assert all(low <= float(value) <= high for value in drawn)
    assert drawn == draw("lr", f"{kind}{low!r}..{high!r}", count, seed)


def test_draws_of_whole_numbers_and_choices() -> None:
    assert {int(value) for value in draw("n", "int:1..3", 100, 0)} == {1, 2, 3}
    assert set(draw("opt", "adam,sgd", 100, 0)) == {"adam", "sgd"}
    assert draw("a", "0..1", 5, 0) != draw("b", "0..1", 5, 0) != draw("b", "0..1", 5, 1)


@pytest.mark.parametrize("text", ["log:0..1", "int:0.5..2", "log:1", "2..1", "log:a..b", "1..inf"])
def test_distributions_that_are_wrong(text: str) -> None:
    with pytest.raises(InputError):
        draw("a", text, 1, 0)


# ---- files


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "lr,opt\n0.1,adam\n0.01,sgd\n"),
        ("t.yaml", "- {lr: 0.1, opt: adam}\n- {lr: 0.01, opt: sgd}\n"),
        ("t.json", '[{"lr": 0.1, "opt": "adam"}, {"lr": 0.01, "opt": "sgd"}]'),
    ],
)
def test_files_of_trials(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_parameters(tmp_path / name) == [{"lr": "0.1", "opt": "adam"}, {"lr": "0.01", "opt": "sgd"}]


def test_a_mapping_in_yaml_is_a_grid(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text("lr: [0.1, 0.01]\nseed: 1..2\n")
    assert len(read_parameters(tmp_path / "g.yaml")) == 4


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("t.csv", "lr,opt\n0.1,\n", "t.csv:2: opt is empty"),
        ("t.csv", "lr,a b\n0.1,1\n", "t.csv:1: 'a b' cannot be the name"),
        ("t.csv", "lr\n", "has no trials"),
        ("t.yaml", "- {lr: 1}\n- {b: 1}\n", "t.yaml:2: the trial has b, the first one lr"),
        ("t.yaml", "lr: {a: 1}\n", "t.yaml:1"),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=says):
        read_parameters(tmp_path / name)
