"""The ranks of a job. Only rank 0 takes turns; the others follow it through the job's own collective."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Any, Final

    Message = tuple[int, int, int]

RANK_VARIABLES: Final = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")


def this_rank() -> int:
    """Return the rank of this process: as torch knows it, or else as its launcher says."""
    dist = _torch_distributed()
    if dist is not None:
        return int(dist.get_rank())
    for name in RANK_VARIABLES:
        value = os.environ.get(name, "")
        if value.isdecimal():
            return int(value)
    return 0


class TorchRanks:
    """The ranks of a process group of torch, by messages between CPUs."""

    def __init__(self, dist: Any, group: Any = None) -> None:
        import torch

        self._torch, self._dist = torch, dist
        self.rank: int = dist.get_rank()
        ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
        # a collective of NCCL would occupy the GPUs of the ranks that wait
        self._group = group if _takes_cpu_tensors(torch, group or dist.group.WORLD) else _gloo_group(dist, ranks)
        self.size = len(ranks)
        self.leads = 0 in ranks
        """True if rank 0 of the job is one of these."""

    def announce(self, message: Message) -> Message:
        """Return the message of rank 0, in all ranks."""
        body = self._torch.tensor(message, dtype=self._torch.int64)
        self._dist.broadcast(body, src=0, group=self._group)
        first, second, third = body.tolist()
        return first, second, third

    def meet(self) -> None:
        """Wait until all ranks are here."""
        self._dist.all_reduce(self._torch.zeros(1), group=self._group)


class MpiRanks:
    """The ranks of an MPI program that uses mpi4py."""

    leads = True

    def __init__(self, mpi: Any) -> None:
        self._comm = mpi.COMM_WORLD.Dup()
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()

    def announce(self, message: Message) -> Message:
        found: Message = self._comm.bcast(message, root=0)
        return found

    def meet(self) -> None:
        self._comm.Barrier()


if TYPE_CHECKING:
    Ranks = TorchRanks | MpiRanks

_ranks: Ranks | None = None


def all_ranks() -> Ranks | None:
    """Return the ranks of this job; None for a single process, or if it has no collective yet."""
    global _ranks
    if _ranks is None:
        dist, mpi = _torch_distributed(), sys.modules.get("mpi4py.MPI")
        if dist is not None and dist.get_world_size() > 1:
            _ranks = TorchRanks(dist)
        elif dist is None and mpi is not None and mpi.Is_initialized() and mpi.COMM_WORLD.Get_size() > 1:
            _ranks = MpiRanks(mpi)
    return _ranks


def _torch_distributed() -> Any:
    dist = sys.modules.get("torch.distributed")
    is_ready = dist is not None and hasattr(dist, "is_initialized") and dist.is_available() and dist.is_initialized()
    return dist if is_ready else None


def _takes_cpu_tensors(torch: Any, group: Any) -> bool:
    try:
        return torch.device("cpu") in group._device_types
    except (AttributeError, RuntimeError):
        return False


def _gloo_group(dist: Any, ranks: list[int]) -> Any:
    return dist.new_group(ranks=ranks, backend="gloo", use_local_synchronization=True)
