from __future__ import annotations

import csv
from importlib.resources import files
from pathlib import Path

import pytest

from weft.errors import UnknownName
from weft.model import Profile
from weft.sim.traces.profiles import KNOWN, MODELS, profile, start_s

REFERENCE = Path(__file__).resolve().parents[3].parent / "shared" / "reference"


def test_a_measured_row_comes_out_in_seconds() -> None:
    assert profile("vgg16", 4) == Profile("vgg16", 201 * 1.015 / 1000, 0.082, 0.072, 0.067, start_s=8.0)


@pytest.mark.parametrize(
    ("gpus", "measured"), [(1, 1), (3, 2), (5, 4), (6, 4), (7, 8), (12, 8), (13, 16), (24, 16), (25, 32), (999, 32)]
)
def test_the_nearest_number_of_gpus_stands_in_and_the_smaller_of_two(gpus: int, measured: int) -> None:
    assert profile("dqn", gpus) == profile("dqn", measured)


def test_an_unknown_model_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"unknown model 'brt'\n  known: bert,"):
        profile("brt", 1)


@pytest.mark.parametrize(("model", "gpus", "expected_s"), [("a2c", 1, 38.0), ("a2c", 64, 46.0), ("llama", 8, 10.0)])
def test_start_cost(model: str, gpus: int, expected_s: float) -> None:
    assert start_s(model, gpus) == expected_s


def test_the_models_of_traces() -> None:
    assert MODELS == ("a2c", "bert", "dqn", "gpt2", "resnet18", "shufflenet_v2_x1_0", "vgg16", "vgg19")
    assert set(KNOWN) - set(MODELS) == {"resnet50"}


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference table is not beside this project")
def test_our_table_is_the_reference_table() -> None:
    ours = files("weft.sim").joinpath("data", "model_profiles.csv").read_text(encoding="utf-8")
    theirs = (REFERENCE / "muri" / "model_profiles.csv").read_text(encoding="utf-8")
    assert list(csv.DictReader(ours.splitlines())) == list(csv.DictReader(theirs.splitlines()))
