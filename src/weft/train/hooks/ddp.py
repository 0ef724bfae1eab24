"""Hooks in DistributedDataParallel: rank 0 leads each forward pass, and gradients are reduced in a network stage.

Only while the job is woven, the reduction of all buckets waits for the last one. It still ends before `backward`
returns, so clipping, scaling and logging see the reduced gradients. The arithmetic is that of DDP without a hook: each
bucket is multiplied by 1 / ranks and summed. A model with a communication hook of the user keeps it, and its network
time belongs to the GPU stage.
"""

from __future__ import annotations

from weft.train.hooks.loop import training_loop
from weft.train.ranks import TorchRanks
from weft.train.turns import turns

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Any, Final

    from weft.train.hooks.loop import TrainingLoop
    from weft.train.ranks import Ranks

ATTRIBUTE: Final = "_weft_reduction"


def install() -> None:
    import torch
    from torch.nn.parallel import DistributedDataParallel

    original = DistributedDataParallel.forward

    def forward(self: Any, *inputs: Any, **keywords: Any) -> Any:
        if not torch.compiler.is_compiling():  # a compiled model has one stage for GPU and network
            loop = training_loop()
            if loop is not None and (turns().is_possible or loop.measures):
                _begin_forward(self, loop)
        return original(self, *inputs, **keywords)

    DistributedDataParallel.forward = forward


def _begin_forward(model: Any, loop: TrainingLoop) -> None:
    """Begin the pass if all ranks make it: one with gradients that they reduce. Others may be of rank 0 alone."""
    import torch

    if not (model.training and torch.is_grad_enabled() and model.require_backward_grad_sync):
        return
    reduction = model.__dict__.get(ATTRIBUTE)
    if reduction is None:
        reduction = model.__dict__[ATTRIBUTE] = Reduction(model, loop)
    reduction.is_deferred = loop.begin_forward(reduction.others) and reduction.is_registered


class Reduction:
    """The reduction of the gradients of one model."""

    def __init__(self, model: Any, loop: TrainingLoop) -> None:
        import torch.distributed as dist

        self._loop, self._dist, self._group = loop, dist, model.process_group
        self._factor = 1.0 / dist.get_world_size(model.process_group)
        found = TorchRanks(dist, model.process_group)
        self.others: Ranks | None = found if found.leads and found.size > 1 else None
        self.is_deferred = False
        self._waiting: list[tuple[Any, Any]] = []
        """Buckets, each with the future that DDP waits for."""
        self.is_registered = not model._comm_hooks and getattr(model, "mixed_precision", None) is None
        if self.is_registered:  # torch refuses a function whose annotations are not its own types
            model.register_comm_hook(None, lambda _state, bucket: self.reduce(bucket))

    def reduce(self, bucket: Any) -> Any:
        """Reduce a bucket at once, or with the last one of this backward pass."""
        gradients = bucket.buffer()
        if gradients.is_sparse:
            gradients.div_(1.0 / self._factor)
        else:
            gradients.mul_(self._factor)
        if not self.is_deferred:
            work = self._dist.all_reduce(gradients, group=self._group, async_op=True)
            return work.get_future().then(lambda done: done.value()[0])
        import torch

        future = torch.futures.Future(devices=[gradients.device] if gradients.is_cuda else [])
        self._waiting.append((gradients, future))
        if bucket.is_last():
            self._reduce_all()
        return future

    def _reduce_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._loop.begin_reduction(self.others)
        try:
            for gradients, _ in waiting:
                self._dist.all_reduce(gradients, group=self._group)
        finally:
            self._loop.end_reduction()
        for gradients, future in waiting:
            future.set_result(gradients)
