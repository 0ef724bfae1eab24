"""The settings of a training run: one table, from which options, params of jobs and the page of the docs derive."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from weft.errors import InputError, UnknownName, nearest
from weft_workloads.catalogue import MODELS, SIZES, Kind, Model, find_model

ALL: Final[tuple[Kind, ...]] = ("images", "text", "games")
OPTIMIZERS: Final = ("sgd", "adam", "adamw")
PARALLEL: Final = ("auto", "single", "ddp", "mpi", "fsdp", "pipeline")
DATASETS: Final[dict[Kind, str]] = {"images": "imagenet", "text": "wikitext", "games": "catch"}
DEFAULT_STEPS: Final = 100
BAD_INPUT: Final = 2
"""Exit code for wrong settings or data."""


class Invalid(ValueError):
    """A value that a setting cannot have; says which it can."""


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.strip().lstrip("+").isdecimal() or not least <= int(text) <= most:
            raise Invalid(f"a whole number from {least} to {most:,}")
        return int(text)

    return read


def _number(least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:  # not true of NaN either
            raise Invalid(f"a number from {least:g} to {most:g}")
        return value

    return read


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            raise Invalid(f"one of {', '.join(nearest(text, words))}")
        return text

    return read


def _text(text: str) -> str:
    if not text:
        raise Invalid("not empty")
    return text


def _switch(text: str) -> bool:
    return _one_of("yes", "no", "true", "false")(text) in ("yes", "true")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: `name` as a param of a job, and as an option with `-` for `_`."""

    name: str
    read: Callable[[str], Any]
    default: str
    meaning: str
    kinds: tuple[Kind, ...] = ALL
    only: str = ""
    """The one model that has it; empty: all of these kinds."""

    def applies_to(self, model: Model) -> bool:
        return model.kind in self.kinds and self.only in ("", model.name)


TABLE: Final = (
    Setting("size", _one_of(*SIZES), "full with a GPU, else tiny", "full is the published model; tiny has the same "
            "layers, fewer and narrower, and trains on a CPU within seconds"),
    Setting("dataset", _text, "imagenet, wikitext, catch", "layout of the data; for games the environment: catch, "
            "or a name that gymnasium knows, such as CartPole-v1"),
    Setting("data", _text, "generated", "path of the data: a folder in the layout of ImageNet, or files of WikiText",
            ("images", "text")),
    Setting("batch_size", _whole(1, 1_000_000), "by model", "samples per step and process"),
    Setting("learning_rate", _number(0, 1000), "by model", "step size of the optimizer"),
    Setting("epochs", _whole(1, 1_000_000), "", "passes over the data", ("images", "text")),
    Setting("steps", _whole(1, 1_000_000_000), "epochs, or 100", "updates of the parameters; with epochs, the smaller"),
    Setting("optimizer", _one_of(*OPTIMIZERS), "by model", "sgd, adam or adamw"),
    Setting("momentum", _number(0, 1), "0.9", "momentum of sgd"),
    Setting("weight_decay", _number(0, 10), "by model", "decay of the parameters"),
    Setting("image_size", _whole(32, 4096), "224; tiny: 32", "pixels of a side", ("images",)),
    Setting("sequence_length", _whole(8, 1_000_000), "512, 1024 or 2048; tiny: 64", "tokens of a sample", ("text",)),
    Setting("workers", _whole(0, 1000), "4; tiny: 0", "processes that load data", ("images", "text")),
    Setting("environments", _whole(1, 10_000), "8", "games that it plays at a time", ("games",), "a2c"),
    Setting("gamma", _number(0, 1), "0.99", "discount of later rewards", ("games",)),
    Setting("parallel", _one_of(*PARALLEL), "auto", "form of several processes: ddp, mpi, fsdp or pipeline"),
    Setting("microbatches", _whole(1, 10_000), "2 for each rank", "parts of a batch in a pipeline", ("text",),
            "llama2-7b"),
    Setting("seed", _whole(0, 2**31 - 1), "0", "seed of parameters, order, crops, masks and generated data"),
    Setting("deterministic", _switch, "no", "use only deterministic kernels on a GPU; they are slower"),
    Setting("evaluate_every", _whole(1, 1_000_000_000), "each epoch", "steps between evaluations"),
    Setting("checkpoint_every", _whole(1, 1_000_000_000), "100", "steps between checkpoints"),
    Setting("checkpoints", _text, "WEFT_CKPT_DIR", "folder of checkpoints; outside a job none are saved without it"),
)  # fmt: skip
NAMES: Final = tuple(setting.name for setting in TABLE)
BY_NAME: Final = {setting.name: setting for setting in TABLE}
ALSO: Final = {"lr": "learning_rate", "max_steps": "steps", "num_workers": "workers"}
"""Other names of settings."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A training run as a job or a command line asks for it. None means the default."""

    model: Model
    size: str | None = None
    dataset: str | None = None
    data: str | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    epochs: int | None = None
    steps: int | None = None
    optimizer: str | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    image_size: int | None = None
    sequence_length: int | None = None
    workers: int | None = None
    environments: int | None = None
    gamma: float | None = None
    parallel: str = "auto"
    microbatches: int | None = None
    seed: int = 0
    deterministic: bool = False
    evaluate_every: int | None = None
    checkpoint_every: int | None = None
    checkpoints: str | None = None


def read_settings(given: Mapping[str, str]) -> Settings:
    """Return the settings for `model` and other texts. Reject an unknown name, and one without effect on the model."""
    if not given.get("model"):
        raise InputError("no model is given", hint=f"name one with --model or params.model: {', '.join(MODELS)}")
    model = find_model(given["model"])
    values: dict[str, Any] = {}
    for written, text in given.items():
        name = ALSO.get(written, written)
        if name == "model":
            continue
        if name not in BY_NAME:
            raise UnknownName(f"param of {model.name}", written[:80], ("model", *names_for(model)))
        if name in values:
            raise InputError(f"{written} and {name} are the same setting", hint="give one of them")
        values[name] = _read(BY_NAME[name], written, text, model)
    found = Settings(model, **values)
    _check(found)
    return found


def names_for(model: Model) -> list[str]:
    """Return the names of the settings that have an effect on a model."""
    return [setting.name for setting in TABLE if setting.applies_to(model)]


def _read(setting: Setting, written: str, text: str, model: Model) -> Any:
    if not setting.applies_to(model):
        raise InputError(f"{written} has no effect on {model.name}", hint=f"it has {', '.join(names_for(model))}")
    try:
        return setting.read(text)
    except Invalid as error:
        raise InputError(f"{written} of {model.name} cannot be {text[:80]!r}", hint=f"it must be {error}") from None


def _check(found: Settings) -> None:
    """Reject settings that contradict each other."""
    model, kind = found.model, found.model.kind
    optimizer = found.optimizer or model.optimizer
    if found.momentum is not None and optimizer != "sgd":
        raise InputError(f"momentum has no effect on {optimizer}", hint="leave it out, or use optimizer sgd")
    if kind != "games" and found.dataset not in (None, DATASETS[kind]):
        raise InputError(
            f"{model.name} cannot be trained on the dataset {str(found.dataset)[:80]!r}",
            hint=f"it reads the layout of {DATASETS[kind]}; data names the path of data in that layout",
        )
    if found.parallel == "pipeline" and not model.is_pipeline:
        raise InputError(f"{model.name} has no pipeline form", hint="llama2-7b has; use ddp or fsdp")
    if found.parallel == "fsdp" and kind == "games":
        raise InputError(f"{model.name} has no fsdp form", hint="use ddp")
    if found.microbatches is not None and found.parallel not in ("auto", "pipeline"):
        raise InputError("microbatches has no effect outside a pipeline", hint="leave it out")


def words_of(found: Settings) -> list[str]:
    """Return the options that give these settings."""
    words = ["--model", found.model.name]
    plain = Settings(found.model)
    for field in fields(found)[1:]:
        value = getattr(found, field.name)
        if value != getattr(plain, field.name):
            text = "yes" if value is True else f"{value!r}" if isinstance(value, float) else str(value)
            words += [f"--{field.name.replace('_', '-')}", text]
    return words
