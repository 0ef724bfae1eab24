"""The classic form: a function `assign(workers, task) -> (worker, gpus)` of one's own, as a placement.

`workers` maps each living worker's id to a `Worker`, `task` says what is asked for; the function returns the id of a
worker and the ids of GPUs that are free there, or None. It must be pure: the same question gets the same answer.
Used as `--placement path/file.py:assign`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from weft.core.free import Free
from weft.core.room import Room
from weft.core.shapes import Shape, memory_needed
from weft.errors import PlanError


@dataclass(frozen=True)
class WorkerGpu:
    id: str
    model: str
    memory: int
    """MB"""
    available: bool


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
class Classic:
    """A placement that asks a function of the classic form."""

    assign: Assign

    looks: ClassVar[bool] = True

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        rooms = {room.node.id: room for room in free.rooms if room.alive}
        workers = {name: _worker(room) for name, room in rooms.items()}
        answer = self.assign(workers, Task(shape.gpus, memory_needed(shape)))
        if answer is None:
            return None
        worker, gpus = answer[0], list(answer[1])
        if worker not in rooms or len(gpus) != shape.gpus:
            raise PlanError(f"assign gave {worker!r} and {len(gpus)} GPUs for a task of {shape.gpus}")
        node = rooms[worker].index
        return ((node, shape.gpus),) if free.count[node] >= shape.gpus else None

    def pick(self, room: Room, count: int, shape: Shape, fitting: Sequence[int]) -> tuple[int, ...]:
        """The GPUs that the function names, asked about this worker alone."""
        answer = self.assign({room.node.id: _worker(room)}, Task(count, memory_needed(shape)))
        return tuple(int(gpu) for gpu in answer[1]) if answer is not None else tuple(fitting[:count])


def _worker(room: Room) -> Worker:
    cards = zip(room.node.gpus, room.holders, strict=True)
    gpus = (WorkerGpu(str(at), gpu.model, gpu.memory_mb, not holders) for at, (gpu, holders) in enumerate(cards))
    return Worker(room.node.id, tuple(gpus), room.tasks)
