"""Each model learns something, and a run that was interrupted computes the same bits as one that was not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("gymnasium")

import torch

from weft.errors import InputError
from weft_workloads.catalogue import MODELS
from weft_workloads.data import generated
from weft_workloads.settings import read_settings
from weft_workloads.training import loop

ROOT = Path(__file__).resolve().parents[3]
STEPS = {"images": 30, "text": 20, "games": 300}
BREAK = {"images": 3, "text": 3, "games": 30}
"""Steps before and after an interruption."""


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("data")
        for name in ("TRAIN_FILE", "judge_path", "RANK", "WORLD_SIZE", "WEFT_CKPT_DIR"):
            patch.delenv(name, raising=False)
        patch.setenv("WEFT_DATA_DIR", str(folder))
        yield folder


def train(model: str, **params: Any) -> loop.Outcome:
    given = {"size": "tiny", "evaluate_every": 1_000_000, **params}
    return loop.run(read_settings({"model": model, **{name: str(value) for name, value in given.items()}}))


def tensors(folder: Path) -> dict[str, Any]:
    """Return every number of the checkpoint in a folder."""
    (latest,) = folder.glob("step-*")
    return {path.name: torch.load(path, weights_only=True) for path in latest.glob("*.pt")}


def same(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return torch.equal(left, right) if isinstance(left, torch.Tensor) else bool(left == right)


@pytest.mark.parametrize("model", MODELS)
def test_a_model_learns_and_resumes_to_the_same_bits(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = MODELS[model].kind
    before = train(model, steps=1, learning_rate=0)
    apart = BREAK[kind]
    train(model, steps=apart, checkpoints=tmp_path / "broken")
    train(model, steps=2 * apart, checkpoints=tmp_path / "broken")
    train(model, steps=2 * apart, checkpoints=tmp_path / "whole")
    assert f"steps {apart} to {2 * apart}" in capsys.readouterr().out
    assert same(tensors(tmp_path / "broken"), tensors(tmp_path / "whole"))
    after = train(model, steps=STEPS[kind], checkpoints=tmp_path / "whole")
    if kind == "games":
        assert after.evaluation["evaluation_reward"] > before.evaluation["evaluation_reward"] + 0.5
    else:
        assert after.evaluation["evaluation_loss"] < before.evaluation["evaluation_loss"] * 0.9


def test_the_first_lines_say_what_is_trained(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop.run(read_settings({"model": "resnet18", "steps": "1"}))
    lines = capsys.readouterr().out.splitlines()
    if not torch.cuda.is_available():
        assert lines[0].startswith("resnet18: size tiny (no GPU; --size full trains the whole model), ")
    assert lines[1].startswith(f"single, 1 process, data: generated {data}/imagenet-0")


def test_epochs_batch_size_and_optimizer_take_effect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train("resnet18", epochs=2, batch_size=128, optimizer="sgd", momentum=0.5, weight_decay=0.25, learning_rate=0.125,
          checkpoints=tmp_path)  # fmt: skip
    assert "steps 0 to 4, 2 an epoch" in capsys.readouterr().out
    (group,) = tensors(tmp_path)["state.pt"]["optimizer"]["param_groups"]
    assert (group["lr"], group["momentum"], group["weight_decay"]) == (0.125, 0.5, 0.25)


SAMPLE_VARIATIONS: dict[str, dict[str, str]] = {
    "model": {"model": "resnet18"}, "batch_size": {"batch_size": "32"}, "learning_rate": {"learning_rate": "0.002"},
    "epochs": {"epochs": "3"}, "momentum": {"momentum": "0.5"}, "weight_decay": {"weight_decay": "0.1"},
    "optimizer": {"optimizer": "adam", "momentum": ""}, "dataset": {"data": "half"},
}  # fmt: skip
"""The effect of each param of the sample task. A dataset is a layout, so other images in it stand for another one."""


def test_every_param_of_the_sample_task_changes_the_training(tmp_path: Path) -> None:
    sample = json.loads((ROOT / "examples" / "sample_task.json").read_text())["params"]
    assert SAMPLE_VARIATIONS.keys() == sample.keys()
    whole = generated.cached("imagenet", 0)
    for name, every in (("quarter", 4), ("half", 2)):
        for part in ("train", "val"):
            for path in sorted((whole / part).glob("*/*.JPEG"))[::every]:
                (tmp_path / name / part / path.parent.name).mkdir(parents=True, exist_ok=True)
                shutil.copy(path, tmp_path / name / part / path.parent.name)
    found = {}
    for param, changes in {"nothing": dict[str, str](), **SAMPLE_VARIATIONS}.items():
        given = {**sample, "epochs": "2", "data": "quarter", "size": "tiny", **changes}
        given["data"] = str(tmp_path / given["data"])
        outcome = loop.run(read_settings({name: text for name, text in given.items() if text}))
        found[param] = (outcome.steps, outcome.loss, outcome.evaluation["evaluation_loss"])
    assert [param for param, outcome in found.items() if outcome == found["nothing"]] == ["nothing"]
    assert found["nothing"][0] == 2, "64 images and a batch of 64 are an epoch"
    assert (found["epochs"][0], found["batch_size"][0]) == (3, 4)


def test_loaders_in_processes_change_nothing(tmp_path: Path) -> None:
    for workers in (0, 2):
        train("resnet18", steps=2, workers=workers, checkpoints=tmp_path / str(workers))
    assert same(tensors(tmp_path / "0"), tensors(tmp_path / "2"))


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    train("resnet18", steps=1, checkpoints=tmp_path)
    with pytest.raises(InputError, match=r"step-000000001 is a checkpoint of resnet18, size tiny\n.*another folder"):
        train("resnet50", steps=2, checkpoints=tmp_path)


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    train("resnet18", steps=1, checkpoints=tmp_path)
    (state,) = tmp_path.glob("step-*/state.pt")
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"cannot read .*state.pt(.|\n)*remove the checkpoint"):
        train("resnet18", steps=2, checkpoints=tmp_path)


def test_a_loss_that_is_not_finite_ends_the_run() -> None:
    with pytest.raises(InputError, match=r"the loss is (nan|inf) at step \d+\n.*smaller learning_rate"):
        train("vgg16", steps=20, learning_rate=1000)


def test_a_sequence_that_is_too_long_is_refused() -> None:
    with pytest.raises(InputError, match=r"sequence_length 4000 is too long for gpt2\n.*at most 128"):
        train("gpt2", steps=1, sequence_length=4000)


def test_gymnasium_has_other_games() -> None:
    assert train("a2c", dataset="CartPole-v1", steps=2).evaluation["evaluation_reward"] > 0
    with pytest.raises(InputError, match=r"there is no environment 'CartPole-v99'"):
        train("dqn", dataset="CartPole-v99", steps=1)
    with pytest.raises(InputError, match=r"Pendulum-v1 does not have discrete actions"):
        train("dqn", dataset="Pendulum-v1", steps=1)


def test_a_form_that_was_not_started_as_such_is_refused() -> None:
    with pytest.raises(InputError, match=r"parallel is fsdp, but RANK and WORLD_SIZE are not set"):
        train("gpt2", parallel="fsdp", steps=1)
    with pytest.raises(InputError, match=r"parallel is mpi, but mpirun did not start this process"):
        train("gpt2", parallel="mpi", steps=1)
