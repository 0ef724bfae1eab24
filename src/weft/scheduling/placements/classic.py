"""Placements in the classic form: a user's function `assign(workers, task) -> (worker, gpus)`.

`workers` maps each living worker's id to a `Worker`; `task` describes the request. The function returns the id of a
worker and the ids of GPUs that are available there, or None. It must be pure: equal arguments give equal results.
Used as `--placement path/file.py:assign`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.errors import PlanError
from weft.scheduling.core.ports import Placement
from weft.scheduling.core.resources.free import Free
from weft.scheduling.core.resources.node import NodeResources
from weft.scheduling.core.resources.shapes import Shape


@dataclass(frozen=True)
class WorkerGpu:
    id: str
    model: str
    memory: int
    """MB"""
    available: bool
    """True if the task could use the GPU. A tentative plan may assume that present runs are gone."""


@dataclass(frozen=True)
class Worker:
    id: str
    gpus: tuple[WorkerGpu, ...]
    active_tasks: int


@dataclass(frozen=True)
class Task:
    required_gpus: int
    min_gpu_memory: int
    """MB"""


Assign = Callable[[Mapping[str, Worker], Task], tuple[str, Iterable[str]] | None]


@dataclass(frozen=True)
class Classic(Placement):
    """A placement that calls a function of the classic form."""

    assign: Assign
    _named: dict[str, tuple[int, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The GPUs of the function's last answer: `place` can return only their number."""

    sees_runs = True

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        workers = {host.node.id: _worker(host, shape, free) for host in free.nodes if host.alive}
        answer = self.assign(workers, Task(shape.gpus, shape.memory_mb.max))
        self._named.clear()
        if answer is None:
            return None
        worker, gpus = self._parse(answer)
        if worker not in workers or len(gpus) != shape.gpus:
            raise self._error(f"{worker!r} and {len(gpus)} GPUs for a task of {shape.gpus}")
        available = {gpu.id for gpu in workers[worker].gpus if gpu.available}
        if not set(gpus) <= available or len(set(gpus)) < len(gpus):
            raise self._error(f"GPUs {', '.join(gpus)} of {worker}; available are {', '.join(sorted(available))}")
        self._named[worker] = tuple(map(int, gpus))
        node = next(host.index for host in free.nodes if host.alive and host.node.id == worker)
        return ((node, shape.gpus),)

    def pick(self, host: NodeResources, count: int, shape: Shape, fitting: Sequence[int]) -> tuple[int, ...]:
        """Return the GPUs that the function chose when it saw all workers."""
        named = self._named.get(host.node.id, ())
        return named if len(named) == count and set(named) <= set(fitting) else tuple(fitting[:count])

    def _parse(self, answer: object) -> tuple[str, list[str]]:
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise self._error(f"{answer!r}; expected (worker, gpus) or None")
        worker, gpus = answer
        if isinstance(gpus, str) or not isinstance(gpus, Iterable):
            raise self._error(f"{gpus!r} for GPUs; expected a list of their ids")
        return str(worker), [str(gpu) for gpu in gpus]

    def _error(self, what: str) -> PlanError:
        code = getattr(self.assign, "__code__", None)
        where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
        return PlanError(f"{getattr(self.assign, '__name__', 'assign')} returned {what}{where}")


def _worker(host: NodeResources, shape: Shape, free: Free) -> Worker:
    able = set(free.gpus(host.index, shape))
    gpus = (WorkerGpu(str(at), gpu.model, gpu.memory_mb, at in able) for at, gpu in enumerate(host.node.gpus))
    return Worker(host.node.id, tuple(gpus), free.tasks(host.index))
