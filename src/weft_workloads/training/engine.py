"""Steps of training: alone, with DDP, with mpirun, and sharded with FSDP."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from weft_workloads.settings import Settings
from weft_workloads.training import checkpoints
from weft_workloads.training.ranks import Ranks
from weft_workloads.training.stages import stage
from weft_workloads.training.tasks import Batch, Task


class Engine(Protocol):
    """Trains a task, one step at a time."""

    def step(self, batch: Batch) -> float:
        """Train on a batch and return its loss before the update."""
        ...

    def evaluate(self) -> dict[str, float]: ...

    def save(self, folder: Path, step: int) -> None: ...

    def load(self, folder: Path) -> int:
        """Restore a checkpoint and return its step."""
        ...


def make_optimizer(found: Settings, tiny: bool, parameters: Any) -> torch.optim.Optimizer:
    """Return the optimizer of the settings."""
    model = found.model
    rate = found.learning_rate
    if rate is None:
        rate = model.tiny_learning_rate if tiny else model.learning_rate
    decay = model.weight_decay if found.weight_decay is None else found.weight_decay
    name = found.optimizer or model.optimizer
    if name == "sgd":
        default = model.momentum if model.optimizer == "sgd" else 0.9
        momentum = default if found.momentum is None else found.momentum
        return torch.optim.SGD(parameters, lr=rate, momentum=momentum, weight_decay=decay)
    kind = torch.optim.Adam if name == "adam" else torch.optim.AdamW
    return kind(parameters, lr=rate, weight_decay=decay)


class ReplicaEngine:
    """A whole model in each process: alone, with DDP, or with mpirun."""

    def __init__(self, task: Task, found: Settings, tiny: bool, ranks: Ranks, form: str, device: torch.device) -> None:
        self.task, self.found, self.ranks, self.tiny = task, found, ranks, tiny
        self.module: nn.Module = task.model
        if form == "ddp":
            self.module = DistributedDataParallel(task.model, device_ids=[device] if device.type == "cuda" else None)
        elif form == "mpi":
            ranks.share_tensors([*task.model.parameters(), *task.model.buffers()])
        self.optimizer = make_optimizer(found, tiny, task.model.parameters())
        # hooks find the stages of data loaders and DDP; the others are marked here
        self.marks_stages = form == "mpi" or found.model.kind == "games"

    def step(self, batch: Batch) -> float:
        self.module.train()
        self.optimizer.zero_grad(set_to_none=True)
        if not self.marks_stages:
            loss = self.task.loss(self.module, batch)
            loss.backward()
        else:
            with stage("gpu"):
                loss = self.task.loss(self.module, batch)
                loss.backward()
            if self.ranks.world > 1:
                with stage("net"):
                    self.ranks.average_gradients(self.task.model)
        self.optimizer.step()
        return float(loss.detach())

    def evaluate(self) -> dict[str, float]:
        self.task.model.eval()
        self.ranks.share_tensors(self.task.model.buffers())  # each process has statistics of its part of the batches
        return self.ranks.mean(self.task.evaluate(self.task.model))

    def save(self, folder: Path, step: int) -> None:
        checkpoints.save_replica(folder, step, self.found, self.tiny, self.task, self.optimizer, self.ranks)

    def load(self, folder: Path) -> int:
        return checkpoints.load_replica(folder, self.found, self.tiny, self.task, self.optimizer, self.ranks)


class ShardedEngine:
    """A model whose parameters, gradients and optimizer are spread over the processes: FSDP."""

    def __init__(self, task: Task, found: Settings, tiny: bool, ranks: Ranks, device: torch.device) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        self.task, self.found, self.ranks, self.tiny = task, found, ranks, tiny
        # the losses change no output in place
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
        mesh = init_device_mesh(device.type, (ranks.world,))
        for block in _blocks(task.model):
            fully_shard(block, mesh=mesh)
        self.module = fully_shard(task.model, mesh=mesh)
        self.optimizer = make_optimizer(found, tiny, self.module.parameters())

    def step(self, batch: Batch) -> float:
        self.module.train()
        self.optimizer.zero_grad(set_to_none=True)
        # forward and backward gather and scatter parameters: gpu and net are one stage
        with stage("gpu"):
            loss = self.task.loss(self.module, batch)
            loss.backward()
            self.optimizer.step()
        return float(loss.detach())

    def evaluate(self) -> dict[str, float]:
        self.module.eval()
        self.ranks.share_tensors(self.module.buffers())  # those that a checkpoint holds
        return self.ranks.mean(self.task.evaluate(self.module))

    def save(self, folder: Path, step: int) -> None:
        checkpoints.save_sharded(folder, step, self.found, self.tiny, self.module, self.optimizer)

    def load(self, folder: Path) -> int:
        return checkpoints.load_sharded(folder, self.found, self.tiny, self.module, self.optimizer)


def _blocks(model: nn.Module) -> list[nn.Module]:
    """Return the layers to shard one by one: those of a text model, or the residual blocks of an image model."""
    for name in ("blocks", "encoder", "features"):
        found = getattr(model, name, None)
        if name == "encoder" and found is not None:
            found = found.blocks
        if found is not None:
            children = found.values() if isinstance(found, nn.ModuleDict) else found
            return [child for child in children if any(True for _ in child.parameters())]
    return []
