"""The loop: batches, steps, progress, evaluations, checkpoints, and an end in time when the job is asked to stop."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from typing import Final

import torch

from weft import train
from weft.errors import InputError
from weft_workloads.settings import DEFAULT_STEPS, Settings
from weft_workloads.training import ranks as processes
from weft_workloads.training.checkpoints import Store
from weft_workloads.training.engine import Engine, ReplicaEngine, ShardedEngine
from weft_workloads.training.pipeline import PipelineEngine
from weft_workloads.training.ranks import Ranks
from weft_workloads.training.stages import hook_stages
from weft_workloads.training.tasks import DatasetTask, Task, make_task

CHECKPOINT_STEPS: Final = 100
PRINT_INTERVAL_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a training run."""

    steps: int
    loss: float
    evaluation: dict[str, float]


def is_tiny(found: Settings) -> bool:
    """Return whether the size is tiny: full is the default where a GPU is present."""
    return not torch.cuda.is_available() if found.size is None else found.size == "tiny"


def total_steps(found: Settings, steps_per_epoch: int) -> int:
    """Return the steps of the whole job: those that are given, or those of the epochs; the smaller of both."""
    limits = [found.steps] if found.steps else []
    if found.epochs and steps_per_epoch:
        limits.append(found.epochs * steps_per_epoch)
    return min(limits) if limits else DEFAULT_STEPS


def run(found: Settings) -> Outcome:
    """Train until the last step. If the job is asked to stop, save and exit with 85."""
    form = processes.parallel_form(found.parallel, found.model.is_pipeline)
    ranks = processes.join(form)
    tiny = is_tiny(found)
    device = _prepare(found, tiny, ranks)
    if form in ("single", "ddp") and found.model.kind != "games":
        hook_stages()
    task, source = processes.make_in_all(ranks, lambda: make_task(found, tiny, ranks, device, form))
    train.pace(task.model)  # next to a service on the same GPU, training gives way
    engine = processes.make_in_all(ranks, lambda: make_engine(task, found, tiny, ranks, form, device))
    trainer = Trainer(found, ranks, task, engine)
    count = sum(each.numel() for each in task.model.parameters())
    if form == "pipeline":
        count = round(ranks.mean({"parameters": count})["parameters"] * ranks.world)
    if ranks.rank == 0:
        why = (
            "" if found.size else " (a GPU is present)" if not tiny else " (no GPU; --size full trains the whole model)"
        )
        size = f"size {'tiny' if tiny else 'full'}{why}"
        print(f"{found.model.name}: {size}, {count:,} parameters, {device.type}", flush=True)
        count_text = "1 process" if ranks.world == 1 else f"{ranks.world} processes"
        print(f"{form}, {count_text}, data: {source}", flush=True)
    try:
        outcome = trainer.run()
    except SystemExit:  # all processes stop at the same step
        ranks.close()
        raise
    ranks.close()
    return outcome


def _prepare(found: Settings, tiny: bool, ranks: Ranks) -> torch.device:
    """Seed, choose threads and kernels, and return the device of this process."""
    torch.manual_seed(found.seed)  # the same in all processes: so are the parameters
    if found.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    cpus = os.environ.get("WEFT_CPUS", "")
    threads = int(cpus) if cpus.isdecimal() else len(os.sched_getaffinity(0))
    # threads that wait for each other cost more than they save on tiny layers
    torch.set_num_threads(1 if tiny else max(threads // ranks.local_world, 1))
    return torch.device("cpu")


def make_engine(task: Task, found: Settings, tiny: bool, ranks: Ranks, form: str, device: torch.device) -> Engine:
    """Return the engine of a parallel form."""
    if form == "pipeline":
        assert isinstance(task, DatasetTask)
        return PipelineEngine(task, found, tiny, ranks, device)
    if form == "fsdp":
        return ShardedEngine(task, found, tiny, ranks, device)
    return ReplicaEngine(task, found, tiny, ranks, form, device)


class Trainer:
    """One run of a training job."""

    def __init__(self, found: Settings, ranks: Ranks, task: Task, engine: Engine) -> None:
        self.found, self.ranks, self.task, self.engine = found, ranks, task, engine
        self.store = Store(found.checkpoints, ranks)
        self.total = total_steps(found, task.steps_per_epoch)
        self.evaluate_every = found.evaluate_every or task.steps_per_epoch or max(self.total // 10, 1)
        self.checkpoint_every = found.checkpoint_every or CHECKPOINT_STEPS
        self.evaluation: dict[str, float] = {}
        self.printed_at = 0.0

    def run(self) -> Outcome:
        latest = self.store.latest()
        first = self.engine.load(latest) if latest else 0
        self._print(
            f"steps {first} to {self.total}"
            + (f", {self.task.steps_per_epoch} an epoch" if self.task.steps_per_epoch else "")
        )
        loss = math.nan
        with train.preemptible() as stop:
            for at, batch in enumerate(self.task.batches(first, self.total), start=first):
                # what a step draws depends on its number alone, not on the steps before it in this process
                torch.manual_seed(hash((self.found.seed, at, self.ranks.rank)) & 0x7FFF_FFFF)
                loss = self.engine.step(batch)
                self.task.after_step(at + 1)
                self._check(loss, at + 1)
                self._after(at + 1, loss)
                if at + 1 < self.total and self.ranks.any(stop.should_stop):
                    self.store.save(self.engine, at + 1)
                    self._print(f"asked to stop: saved after step {at + 1}")
                    stop.requeue()
        if first >= self.total and not self.evaluation:
            self.evaluation = self.engine.evaluate()
        if self.ranks.rank == 0:
            train.done()
        self._print("done")
        return Outcome(self.total, loss, self.evaluation)

    def _after(self, step: int, loss: float) -> None:
        """Evaluate when it is time to, report the step, and save when it is time to."""
        last = step == self.total
        if last or step % self.evaluate_every == 0:
            self.evaluation = self.engine.evaluate()
        metrics = {"loss": loss, **self.task.metrics(), **self.evaluation}
        if self.ranks.rank == 0:
            train.progress(step, self.total, **metrics)
        if last or step % self.checkpoint_every == 0:
            self.store.save(self.engine, step)  # after the report, from which the checkpoint gets its step
        now = time.monotonic()
        if last or now - self.printed_at >= PRINT_INTERVAL_S:
            self.printed_at = now
            epoch = f"epoch {(step - 1) // self.task.steps_per_epoch + 1}, " if self.task.steps_per_epoch else ""
            figures = ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in metrics.items())
            self._print(f"{epoch}step {step}/{self.total}: {figures}")

    def _check(self, loss: float, step: int) -> None:
        if not math.isfinite(loss):
            raise InputError(f"the loss is {loss} at step {step}", hint="use a smaller learning_rate")

    def _print(self, text: str) -> None:
        if self.ranks.rank == 0:
            print(text, flush=True)
