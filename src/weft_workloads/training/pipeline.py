"""A pipeline: each process holds consecutive layers, and parts of a batch flow through them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.errors import InputError
from weft_workloads.settings import Settings
from weft_workloads.training import checkpoints
from weft_workloads.training.engine import make_optimizer
from weft_workloads.training.ranks import Ranks
from weft_workloads.training.stages import stage
from weft_workloads.training.tasks import Batch, DatasetTask, next_token_of


class PipelineEngine:
    """One stage of a pipeline in each process, with the schedule 1F1B."""

    def __init__(self, task: DatasetTask, found: Settings, tiny: bool, ranks: Ranks, device: torch.device) -> None:
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B

        self.task, self.found, self.ranks, self.tiny = task, found, ranks, tiny
        batch_size = task.batch_size
        parts = found.microbatches or min(2 * ranks.world, batch_size)
        if batch_size % parts or parts < ranks.world:
            raise InputError(
                f"a batch of {batch_size} cannot be split into {parts} microbatches for {ranks.world} processes",
                hint="microbatches must divide batch_size and be at least the number of processes",
            )
        self.microbatches = parts
        self.is_first, self.is_last = ranks.rank == 0, ranks.rank == ranks.world - 1
        made = PipelineStage(task.model, ranks.rank, ranks.world, device)
        self.schedule = Schedule1F1B(made, parts, loss_fn=next_token_of)
        self.optimizer = make_optimizer(found, tiny, task.model.parameters())

    def step(self, batch: Batch) -> float:
        self.task.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        # activations and gradients flow while layers compute: gpu and net are one stage
        with stage("gpu"):
            losses: list[Tensor] = []
            self._run(self.schedule.step, batch, losses)
            self.optimizer.step()
        return self._mean(losses)

    def _run(self, run: Any, batch: Batch, losses: list[Tensor]) -> None:
        inputs = (batch[0],) if self.is_first else ()
        if self.is_last:
            run(*inputs, target=batch[0], losses=losses)
        else:
            run(*inputs)

    def _mean(self, losses: list[Tensor]) -> float:
        """Return the mean loss, which only the last process knows, in every process."""
        own = float(torch.stack(losses).mean().detach()) if losses else 0.0
        return self.ranks.mean({"loss": own})["loss"] * self.ranks.world

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        self.task.model.eval()
        found = []
        for batch in self.task.unseen_batches():
            losses: list[Tensor] = []
            self._run(self.schedule.eval, batch, losses)
            found.append(self._mean(losses))
        return {"evaluation_loss": sum(found) / max(len(found), 1)}

    def save(self, folder: Path, step: int) -> None:
        checkpoints.save_sharded(folder, step, self.found, self.tiny, self.task.model, self.optimizer)

    def load(self, folder: Path) -> int:
        return checkpoints.load_sharded(folder, self.found, self.tiny, self.task.model, self.optimizer)
