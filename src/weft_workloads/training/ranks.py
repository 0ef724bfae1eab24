"""The processes of a run: alone, started by torchrun or Weft, or started by mpirun."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import torch
from torch import nn

from weft.errors import InputError
from weft_workloads.settings import BAD_INPUT

Made = TypeVar("Made")


class Ranks(Protocol):
    """The processes that train one model together."""

    rank: int
    world: int
    local_rank: int
    local_world: int

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set in any process. Every process must call it."""
        ...

    def mean(self, values: dict[str, float]) -> dict[str, float]:
        """Return the mean of each value over all processes."""
        ...

    def share(self, value: Any) -> Any:
        """Return the value of rank 0."""
        ...

    def share_tensors(self, tensors: Iterable[torch.Tensor]) -> None:
        """Replace tensors by those of rank 0."""
        ...

    def average_gradients(self, model: nn.Module) -> None:
        """Replace all gradients by their means, unless the parallel form does that itself."""
        ...

    def close(self) -> None:
        """End the work of all processes. Every process must call it; one that fails alone must not."""
        ...


class Alone:
    """A single process."""

    rank = local_rank = 0
    world = local_world = 1

    def any(self, flag: bool) -> bool:
        return flag

    def mean(self, values: dict[str, float]) -> dict[str, float]:
        return values

    def share(self, value: Any) -> Any:
        return value

    def share_tensors(self, tensors: Iterable[torch.Tensor]) -> None: ...

    def average_gradients(self, model: nn.Module) -> None: ...

    def close(self) -> None: ...


class TorchRanks:
    """Processes with the variables of torchrun, which `weft submit --per-gpu` sets as well."""

    def __init__(self) -> None:
        import torch.distributed as dist

        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.local_world = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        cuda = torch.cuda.is_available()
        if cuda:
            torch.cuda.set_device(self.local_rank)
        if not dist.is_initialized():
            dist.init_process_group("nccl" if cuda else "gloo")
        # flags and figures are on the host: agreeing on them must not wait for the GPU
        self._group = dist.new_group(backend="gloo") if cuda else None

    def any(self, flag: bool) -> bool:
        import torch.distributed as dist

        value = torch.tensor(int(flag))
        dist.all_reduce(value, op=dist.ReduceOp.MAX, group=self._group)
        return bool(value)

    def mean(self, values: dict[str, float]) -> dict[str, float]:
        import torch.distributed as dist

        names = sorted(values)
        total = torch.tensor([values[name] for name in names], dtype=torch.float64)
        dist.all_reduce(total, group=self._group)
        return dict(zip(names, (total / self.world).tolist(), strict=True))

    def share(self, value: Any) -> Any:
        import torch.distributed as dist

        found = [value]
        dist.broadcast_object_list(found, src=0, group=self._group)
        return found[0]

    def share_tensors(self, tensors: Iterable[torch.Tensor]) -> None:
        import torch.distributed as dist

        for tensor in tensors:
            dist.broadcast(tensor, src=0)

    def average_gradients(self, model: nn.Module) -> None: ...

    def close(self) -> None:
        """Leave the group to the end of the process: its destructor may wait for a thread that waits for the GIL."""


class MpiRanks:
    """Processes of mpirun. Gradients are averaged with one all-reduce per step, through the memory of the host."""

    def __init__(self) -> None:
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise InputError(
                f"mpirun started this process, and mpi4py cannot be imported: {error}",
                hint="install it on the node: pip install 'weft[mpi]'",
            ) from error
        self._mpi, self._all = MPI, MPI.COMM_WORLD
        self.rank, self.world = self._all.Get_rank(), self._all.Get_size()
        node = self._all.Split_type(MPI.COMM_TYPE_SHARED)
        self.local_rank, self.local_world = node.Get_rank(), node.Get_size()
        if torch.cuda.is_available():
            torch.cuda.set_device(self.local_rank)

    def any(self, flag: bool) -> bool:
        return bool(self._all.allreduce(int(flag), op=self._mpi.MAX))

    def mean(self, values: dict[str, float]) -> dict[str, float]:
        names = sorted(values)
        total = np.array([values[name] for name in names], dtype=np.float64)
        self._all.Allreduce(self._mpi.IN_PLACE, total)
        return dict(zip(names, (total / self.world).tolist(), strict=True))

    def share(self, value: Any) -> Any:
        return self._all.bcast(value, root=0)

    def share_tensors(self, tensors: Iterable[torch.Tensor]) -> None:
        for tensor in tensors:
            host = tensor.detach().cpu().contiguous()
            self._all.Bcast(host.view(-1).numpy(), root=0)
            tensor.data.copy_(host)

    def average_gradients(self, model: nn.Module) -> None:
        gradients = [each.grad for each in model.parameters() if each.grad is not None]
        flat = torch.cat([gradient.detach().reshape(-1).cpu() for gradient in gradients])
        self._all.Allreduce(self._mpi.IN_PLACE, flat.numpy())
        flat /= self.world
        _unflatten(flat, gradients)

    def close(self) -> None:
        self._mpi.Finalize()


def _unflatten(flat: torch.Tensor, tensors: Iterable[torch.Tensor]) -> None:
    begin = 0
    for tensor in tensors:
        tensor.copy_(flat[begin : begin + tensor.numel()].view_as(tensor))
        begin += tensor.numel()


def parallel_form(wanted: str, is_pipeline: bool) -> str:
    """Return the form to use: the one that is wanted, or by how this process was started."""
    mpi = "OMPI_COMM_WORLD_SIZE" in os.environ or "PMI_SIZE" in os.environ
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if wanted == "auto":
        if several:
            return "pipeline" if is_pipeline else "ddp"
        return "mpi" if mpi else "single"
    if wanted == "mpi" and not mpi:
        raise InputError(
            "parallel is mpi, but mpirun did not start this process", hint="write mpirun -n 2 python -m ..."
        )
    if wanted in ("ddp", "fsdp", "pipeline") and "RANK" not in os.environ:
        raise InputError(
            f"parallel is {wanted}, but RANK and WORLD_SIZE are not set",
            hint="start it with torchrun, or with weft submit --per-gpu",
        )
    if wanted == "single" and several:
        raise InputError("parallel is single, but several processes were started", hint="use ddp, or one GPU")
    return wanted


def make_in_all(ranks: Ranks, make: Callable[[], Made]) -> Made:
    """Return what `make` makes. If it fails in any process, all end: those with the error of rank 0 without a word."""
    made, error = None, None
    try:
        made = make()
    except InputError as found:
        error = found
    first = ranks.share(str(error) if error else "")
    if ranks.any(error is not None):
        if error is None or (ranks.rank and str(error) == first):
            raise SystemExit(BAD_INPUT)
        raise error
    return cast(Made, made)


def join(form: str) -> Ranks:
    """Join the other processes of this run."""
    if form == "single":
        return Alone()
    return MpiRanks() if form == "mpi" else TorchRanks()
