"""Tasks: a model, its batches, its loss, and its score on data that it was not trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from weft.errors import InputError
from weft_workloads.data import images, texts
from weft_workloads.data.order import StepBatches
from weft_workloads.data.paths import data_path
from weft_workloads.models import cv, llama, text
from weft_workloads.settings import Settings
from weft_workloads.training.ranks import Ranks

Batch = tuple[Tensor, ...]
Loss = Callable[[nn.Module, Batch], Tensor]
MAX_EVALUATION_BATCHES: Final = {True: 4, False: 50}
"""By whether the size is tiny."""
IMAGENET_CLASSES: Final = 1000
DEFAULT_LENGTHS: Final = {"bert-base": 512, "roberta-large": 512, "gpt2": 1024, "gpt2-large": 1024, "llama2-7b": 2048}
DEFAULT_TINY_LENGTH: Final = 64


class Task(Protocol):
    """A model and everything that trains it."""

    model: nn.Module
    steps_per_epoch: int
    """0 where there are no epochs."""

    def batches(self, first_step: int, last_step: int) -> Iterator[Batch]: ...

    def loss(self, model: nn.Module, batch: Batch) -> Tensor: ...

    def after_step(self, step: int) -> None: ...

    def metrics(self) -> dict[str, float]: ...

    def evaluate(self, model: nn.Module) -> dict[str, float]: ...

    def state(self) -> dict[str, Any]:
        """Return what this process needs to continue, apart from model and optimizer."""
        ...

    def load(self, state: dict[str, Any]) -> None: ...


class DatasetTask:
    """A model that learns from a data set, through plain data loaders."""

    def __init__(
        self, model: nn.Module, loss: Loss, train: Dataset[Any], unseen: Dataset[Any], *, batch_size: int, tiny: bool,
        seed: int, workers: int, ranks: Ranks, device: torch.device, counts_hits: bool = False,
        splits_data: bool = True,
    ) -> None:  # fmt: skip
        self.model, self.loss = model.to(device), loss
        self.device, self.counts_hits, self.batch_size = device, counts_hits, batch_size
        rank, world = (ranks.rank, ranks.world) if splits_data else (0, 1)
        self._order = StepBatches(len(train), batch_size, rank=rank, world=world, seed=seed)
        self._unseen_order = StepBatches(len(unseen), batch_size, rank=rank, world=world, seed=seed)
        self._unseen_order.last_step = min(self._unseen_order.steps_per_epoch, MAX_EVALUATION_BATCHES[tiny])
        self._loader = _loader(train, self._order, workers, device)
        self._unseen_loader = _loader(unseen, self._unseen_order, 0, device)
        self.steps_per_epoch = self._order.steps_per_epoch

    def batches(self, first_step: int, last_step: int) -> Iterator[Batch]:
        self._order.first_step, self._order.last_step = first_step, last_step
        for batch in self._loader:
            yield self.place(batch)

    def unseen_batches(self) -> Iterator[Batch]:
        for batch in self._unseen_loader:
            yield self.place(batch)

    def place(self, batch: list[Tensor]) -> Batch:
        """Return the batch on the device."""
        return tuple(tensor.to(self.device, non_blocking=True) for tensor in batch)

    def after_step(self, step: int) -> None:
        """Do nothing: only the optimizer changes the model."""

    def metrics(self) -> dict[str, float]:
        return {}

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> dict[str, float]:
        total = hits = batches = samples = 0.0
        for batch in self.unseen_batches():
            total += float(self.loss(model, batch))
            batches += 1
            if self.counts_hits:
                hits += float((model(batch[0]).argmax(dim=1) == batch[1]).sum())
                samples += len(batch[1])
        found = {"evaluation_loss": total / max(batches, 1)}
        return found | ({"accuracy": hits / max(samples, 1)} if self.counts_hits else {})

    def state(self) -> dict[str, Any]:
        """Return nothing: the step alone decides the order of samples, crops and masks."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Do nothing: see `state`."""


def _loader(data: Dataset[Any], order: StepBatches, workers: int, device: torch.device) -> DataLoader[Any]:
    # a generator for the loader: it would draw from the global one otherwise, and change what follows a restart
    return DataLoader(
        data, batch_sampler=order, num_workers=workers, pin_memory=device.type == "cuda",
        generator=torch.Generator().manual_seed(0), persistent_workers=False,
    )  # fmt: skip


# ---- losses


def classify(model: nn.Module, batch: Batch) -> Tensor:
    return functional.cross_entropy(model(batch[0]), batch[1])


def next_token(model: nn.Module, batch: Batch) -> Tensor:
    return next_token_of(model(batch[0]), batch[0])


def next_token_of(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return the loss of a decoder: each token is predicted from those before it."""
    return functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def masked(model: nn.Module, batch: Batch) -> Tensor:
    tokens, labels = batch
    return functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), ignore_index=texts.IGNORED)


def masked_and_next(model: nn.Module, batch: Batch) -> Tensor:
    tokens, segments, labels, follows = batch
    logits, related = model(tokens, segments)
    filled = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=texts.IGNORED)
    return filled + functional.cross_entropy(related, follows)


# ---- tasks by settings


def make_task(found: Settings, tiny: bool, ranks: Ranks, device: torch.device, form: str) -> tuple[Task, str]:
    """Return the task of the settings, and the source of its data in words."""
    kind = found.model.kind
    batch_size = found.batch_size or (found.model.tiny_batch_size if tiny else found.model.batch_size)
    if kind == "games":
        return _game(found, tiny, ranks, device, batch_size)
    path, source = data_path("imagenet" if kind == "images" else "wikitext", found.data, found.seed)
    workers = found.workers if found.workers is not None else 0 if tiny else 4
    common: dict[str, Any] = {
        "batch_size": batch_size, "tiny": tiny, "seed": found.seed, "workers": workers, "ranks": ranks,
        "device": device,
    }  # fmt: skip
    if kind == "images":
        return _images(found, tiny, path, common), f"{source} {path}"
    length = found.sequence_length or (DEFAULT_TINY_LENGTH if tiny else DEFAULT_LENGTHS[found.model.name])
    name = found.model.name
    longest = llama.max_length(tiny) if name == "llama2-7b" else text.max_length(name, tiny)
    if length > longest:
        raise InputError(f"sequence_length {length} is too long for {name}", hint=f"it takes at most {longest} tokens")
    train_file, unseen_file = texts.find_files(path)
    windows, loss = _TEXT_FORMS.get(name, (texts.Windows, next_token))
    train, unseen = windows(train_file, length, found.seed), windows(unseen_file, length, found.seed)
    if name == "llama2-7b":
        part, parts = (ranks.rank, ranks.world) if form == "pipeline" else (0, 1)
        if parts > llama.layers(tiny):
            what = f"{parts} processes cannot share {llama.layers(tiny)} layers"
            raise InputError(what, hint=f"use at most {llama.layers(tiny)} GPUs")
        model: nn.Module = llama.build(tiny, part, parts)
    else:
        model = text.build(name, tiny)
    return DatasetTask(model, loss, train, unseen, splits_data=form != "pipeline", **common), f"{source} {train_file}"


_TEXT_FORMS: Final[dict[str, tuple[type[texts.Windows], Loss]]] = {
    "bert-base": (texts.MaskedPairs, masked_and_next),
    "roberta-large": (texts.MaskedWindows, masked),
}


def _images(found: Settings, tiny: bool, path: Any, common: dict[str, Any]) -> Task:
    pixels = found.image_size or (32 if tiny else 224)
    train = images.ImageFolder(path, "train", pixels, found.seed)
    unseen = images.ImageFolder(path, "val", pixels, found.seed)
    images.check_same_classes(train, unseen)
    classes = len(train.classes) if tiny else max(len(train.classes), IMAGENET_CLASSES)
    model = cv.build(found.model.name, tiny, classes)
    return DatasetTask(model, classify, train, unseen, counts_hits=True, **common)


def _game(found: Settings, tiny: bool, ranks: Ranks, device: torch.device, batch_size: int) -> tuple[Task, str]:
    from weft_workloads.games.a2c import A2cTask
    from weft_workloads.games.dqn import DqnTask

    name = found.dataset or "catch"
    gamma = 0.99 if found.gamma is None else found.gamma
    if found.model.name == "a2c":
        task: Task = A2cTask(
            name, tiny, environments=found.environments or 8, batch_size=batch_size, gamma=gamma, seed=found.seed,
            rank=ranks.rank, device=device,
        )  # fmt: skip
    else:
        task = DqnTask(name, tiny, batch_size=batch_size, gamma=gamma, seed=found.seed, rank=ranks.rank, device=device)
    return task, f"environment {name}"
