"""SRTF, SRSF and Tiresias by the rules of Muri's simulator, written down as they are stated: one list of jobs, linear
scans, one event at a time. Weft's policies must agree with them in the end of every job. AntMan: `antman_rules`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf, isclose
from typing import Final

from weft.sim.traces.trace import TraceJob

NODES, GPUS = 8, 8
THRESHOLDS: Final = (3250.0, 7200.0)
"""GPU-seconds at which a job leaves the first and the second queue of Tiresias."""


@dataclass(eq=False)
class Task:
    index: int
    submit_s: float
    gpus: int
    iteration_s: float
    start_s: float
    left: float
    """Iterations."""
    running: bool = False
    checked: float = 0.0
    executed: float = 0.0
    queue: int = 0
    ends: float = inf
    ended: float = inf

    @property
    def remaining_s(self) -> float:
        return self.left * self.iteration_s


def ends_of(jobs: Sequence[TraceJob], policy: str) -> list[float]:
    """Return when each job ends, by Muri's cost model."""
    tasks = [_task(index, each) for index, each in enumerate(jobs)]
    if policy == "tiresias":
        return _run(tasks, _Queues(), grouped=False)
    keys: dict[str, Callable[[Task], float]] = {
        "srtf": lambda task: task.remaining_s,
        "srsf": lambda task: task.remaining_s * task.gpus,
    }
    return _run(tasks, _Sorted(keys[policy]), grouped=True)


def _task(index: int, each: TraceJob) -> Task:
    job = each.job
    assert job.profile is not None
    assert job.iterations is not None
    return Task(index, each.submit_s, job.gpus, job.profile.iteration_s, job.profile.start_s, float(job.iterations))


class _Sorted:
    """The list of runnable jobs, sorted at each event; equal keys keep the order of the event before."""

    def __init__(self, key: Callable[[Task], float]) -> None:
        self.runnable: list[Task] = []
        self._key = key

    def end(self, task: Task) -> None:
        self.runnable.remove(task)

    def arrive(self, task: Task) -> None:
        self.runnable.append(task)

    def advance(self, task: Task, now: float) -> None:
        """Nothing but the work counts."""

    def place(self) -> set[Task]:
        self.runnable.sort(key=self._key)
        free = [GPUS] * NODES
        return {task for task in self.runnable if _take(free, task.gpus)}

    def next_jump(self, now: float) -> float:
        return inf


class _Queues:
    """Tiresias: three queues by executed seconds times GPUs; the list of runnable jobs stays in order of arrival."""

    def __init__(self) -> None:
        self.runnable: list[Task] = []
        self._queues: tuple[list[Task], ...] = ([], [], [])

    def end(self, task: Task) -> None:
        self.runnable.remove(task)
        self._queues[task.queue].remove(task)

    def arrive(self, task: Task) -> None:
        self.runnable.append(task)
        self._queues[0].append(task)

    def advance(self, task: Task, now: float) -> None:
        task.executed = task.executed + now - task.checked
        if task.queue == len(THRESHOLDS):
            return
        # as stated, the rules stand still where a jump is due now and its threshold, by rounding, is not reached
        if task.executed * task.gpus >= THRESHOLDS[task.queue] or self._jump(task, now) <= now:
            self._queues[task.queue].remove(task)
            task.queue += 1
            self._queues[task.queue].append(task)

    def place(self) -> set[Task]:
        free, chosen = NODES * GPUS, set[Task]()
        for queue in self._queues:
            for task in queue:
                if task.gpus <= free:
                    free -= task.gpus
                    chosen.add(task)
            queue.sort(key=lambda task: task not in chosen)
        return chosen

    def next_jump(self, now: float) -> float:
        runs = (task for task in self.runnable if task.running and task.queue < len(THRESHOLDS))
        return min((self._jump(task, now) for task in runs), default=inf)

    @staticmethod
    def _jump(task: Task, now: float) -> float:
        return now + ceil(THRESHOLDS[task.queue] / task.gpus) - task.executed


def _run(tasks: list[Task], order: _Sorted | _Queues, *, grouped: bool) -> list[float]:
    coming, jump = list(tasks), inf
    completion, ending = inf, list[Task]()
    while coming or order.runnable:
        arrival = coming[0].submit_s if coming else inf
        now = min(arrival, completion, jump)
        for task in ending if completion == now else ():
            order.end(task)
            task.running, task.ended = False, now
        while coming and coming[0].submit_s == now:
            order.arrive(coming.pop(0))
        for task in order.runnable:
            if task.running:
                task.left -= max(now - task.checked - task.start_s, 0.0) / task.iteration_s
                order.advance(task, now)
                task.checked = now
        chosen = order.place()
        completion, ending = inf, []
        for task in order.runnable:
            if task in chosen and not task.running:
                task.checked = now
            task.running = task in chosen
            if task.running:
                task.ends = now + task.left * task.iteration_s
                if task.ends == completion or (grouped and isclose(task.ends, completion, rel_tol=1e-9)):
                    ending.append(task)
                elif task.ends < completion:
                    completion, ending = task.ends, [task]
        jump = order.next_jump(now)
    return [task.ended for task in tasks]


def _take(free: list[int], gpus: int) -> bool:
    """Place a job on the first nodes that have room; a job larger than a node takes idle nodes and a part of one."""
    whole, rest = (0, gpus) if gpus <= GPUS else divmod(gpus, GPUS)
    full = [node for node in range(NODES) if free[node] == GPUS][:whole]
    partial = [node for node in range(NODES) if node not in full and free[node] >= rest][: bool(rest)]
    if len(full) < whole or len(partial) < bool(rest):
        return False
    for node in full:
        free[node] = 0
    for node in partial:
        free[node] -= rest
    return True
