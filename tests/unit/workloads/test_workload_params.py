"""Params of jobs without a command: each takes effect, and wrong ones get one clear error."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from weft.access.jobspec.workloads import command_for
from weft.errors import InputError
from weft_workloads.catalogue import ALIASES, MODELS
from weft_workloads.commands import train
from weft_workloads.settings import NAMES, read_settings, words_of

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = json.loads((ROOT / "examples" / "sample_task.json").read_text())
SEED = {
    "model": "resnet50", "dataset": "imagenet", "batch_size": "64", "learning_rate": "0.001", "epochs": "90",
    "optimizer": "sgd", "momentum": "0.9", "weight_decay": "0.0001",
}  # fmt: skip


def test_every_param_of_the_sample_task_is_on_its_command_line() -> None:
    assert SAMPLE["params"] == SEED
    assert "command" not in SAMPLE
    command = command_for(SAMPLE["params"])
    assert command.per_gpu
    assert list(command.words[4:]) == [
        "--model", "resnet50", "--dataset", "imagenet", "--batch-size", "64", "--learning-rate", "0.001",
        "--epochs", "90", "--optimizer", "sgd", "--momentum", "0.9", "--weight-decay", "0.0001",
    ]  # fmt: skip


def test_every_model_is_registered() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["weft.workloads"]
    assert set(points) == {*MODELS, *ALIASES}
    for name in points:
        assert train({"model": name}).words[-1] == ALIASES.get(name, name)


def test_options_and_params_have_the_same_meaning() -> None:
    given = {
        "model": "bert",
        "size": "tiny",
        "lr": "1e-3",
        "deterministic": "yes",
        "sequence_length": "32",
        "seed": "7",
    }
    found = read_settings(given)
    words = words_of(found)
    options = {option[2:].replace("-", "_"): text for option, text in zip(words[::2], words[1::2], strict=True)}
    assert read_settings(options) == found
    assert (found.model.name, found.learning_rate, found.deterministic) == ("bert-base", 0.001, True)


WRONG = {
    "an unknown model": ({"model": "resnet5"}, "unknown model 'resnet5'", "known: resnet50,"),
    "no model": ({"steps": "3"}, "no model is given", "params.model: resnet18, resnet50,"),
    "an unknown param": ({"batchsize": "3"}, "unknown param of resnet50 'batchsize'", "known: batch_size,"),
    "an unknown size": ({"size": "ful"}, "size of resnet50 cannot be 'ful'", "one of full, tiny"),
    "not a number": ({"batch_size": "many"}, "batch_size of resnet50 cannot be 'many'", "a whole number from 1"),
    "a fraction": ({"steps": "1.5"}, "steps of resnet50 cannot be '1.5'", "a whole number"),
    "NaN": ({"learning_rate": "nan"}, "learning_rate of resnet50 cannot be 'nan'", "a number from 0"),
    "an unknown optimizer": ({"optimizer": "adm"}, "optimizer of resnet50 cannot be 'adm'", "one of adam,"),
    "momentum of adam": ({"optimizer": "adam", "momentum": "0.9"}, "momentum has no effect on adam", "leave it out"),
    "the wrong dataset": ({"dataset": "cifar10"}, "cannot be trained on the dataset 'cifar10'", "layout of imagenet"),
    "for text only": ({"sequence_length": "64"}, "sequence_length has no effect on resnet50", "image_size"),
    "no pipeline": ({"parallel": "pipeline"}, "resnet50 has no pipeline form", "llama2-7b"),
    "microbatches alone": ({"model": "gpt2", "microbatches": "4"}, "microbatches has no effect on gpt2", "it has size"),
    "microbatches of ddp": (
        {"model": "llama2-7b", "microbatches": "4", "parallel": "ddp"},
        "microbatches has no effect outside a pipeline",
        "leave it out",
    ),
    "epochs of a game": ({"model": "dqn", "epochs": "4"}, "epochs has no effect on dqn", "steps"),
    "fsdp of a game": ({"model": "dqn", "parallel": "fsdp"}, "dqn has no fsdp form", "ddp"),
    "many games of dqn": ({"model": "dqn", "environments": "4"}, "environments has no effect on dqn", "it has size"),
    "twice": ({"lr": "1", "learning_rate": "1"}, "are the same setting", "give one"),
    "empty": ({"data": ""}, "data of resnet50 cannot be ''", "not empty"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_params_get_one_clear_error(case: str) -> None:
    given, what, hint = WRONG[case]
    if case != "no model":
        given = {"model": "resnet50", **given}
    with pytest.raises(InputError) as caught:
        command_for(given) if "model" in given and given["model"] in MODELS else read_settings(given)
    assert what in caught.value.what
    assert hint in caught.value.hint


def test_the_page_lists_every_param_and_model() -> None:
    page = (ROOT / "docs" / "reference" / "workloads.md").read_text()
    for name in (*NAMES, *MODELS):
        assert f"| `{name}` |" in page, name
    for model in MODELS.values():
        rates = f"{_decimal(model.learning_rate)}, tiny {_decimal(model.tiny_learning_rate)}"
        row = (
            f"| `{model.name}` | {model.kind} | {model.parameters:,} | {model.optimizer} | {rates} |"
            f" {model.batch_size}, tiny {model.tiny_batch_size} |"
        )
        assert row in page, model.name


def _decimal(value: float) -> str:
    return f"{value:.6f}".rstrip("0")
