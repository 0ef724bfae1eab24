"""AntMan by Muri's rules, written down as they are stated: floating-point load counters, linear scans, one event at a
time. Weft's policy must agree with it in the end of every job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor, inf, isclose

from weft.model import Profile
from weft.sim.traces.trace import TraceJob

NODES, GPUS = 8, 8
Place = tuple[int, int]
"""A node and a GPU of it."""


@dataclass(eq=False)
class Task:
    index: int
    submit_s: float
    gpus: int
    guest: bool
    profile: Profile
    left: float
    pace_s: float = 0.0
    on: list[Place] = field(default_factory=list)
    started: bool = False
    checked: float = 0.0
    ends: float = inf
    ended: float = inf


class Machines:
    def __init__(self) -> None:
        self.load = {(node, gpu): 0.0 for node in range(NODES) for gpu in range(GPUS)}
        self.owner: dict[Place, Task] = {}

    def free(self, node: int) -> list[Place]:
        return [(node, gpu) for gpu in range(GPUS) if (node, gpu) not in self.owner]

    def take(self, task: Task, node: int, count: int) -> None:
        for place in self.free(node)[:count]:
            self.owner[place] = task
            self.load[place] += 0.1 - 0.01
            task.on.append(place)

    def release(self, task: Task) -> None:
        for place in task.on:
            self.load[place] -= 0.9 if task.guest else 0.1
            if not task.guest:
                del self.owner[place]

    def start_guest(self, task: Task) -> bool:
        able = sorted((place for place in self.load if self.load[place] < 0.8), key=lambda place: self.load[place])
        if len(able) < task.gpus:
            return False
        task.on = able[: task.gpus]
        for place in task.on:
            self.load[place] += 0.9
        return True

    def start_owner(self, task: Task) -> bool:
        whole, rest = (0, task.gpus) if task.gpus <= GPUS else divmod(task.gpus, GPUS)
        held = {node: [place for place in task.on if place[0] == node] for node, _ in task.on}
        full = [node for node, places in held.items() if len(places) == GPUS] if whole else []
        for node in range(NODES):
            if len(full) < whole and node not in full and len(self.free(node)) == GPUS:
                self.take(task, node, GPUS)
                full.append(node)
        if len(full) < whole:
            return False
        waits_on = next((node for node in held if node not in full), None)
        if rest and waits_on is not None:
            self.take(task, waits_on, rest - len(held[waits_on]))
        elif rest:
            nodes = [node for node in range(NODES) if node not in full]
            fitting = [node for node in nodes if len(self.free(node)) >= rest]
            self.take(task, fitting[0] if fitting else max(nodes, key=lambda node: len(self.free(node))), rest)
        if len(task.on) < task.gpus:
            return False
        for place in task.on:
            self.load[place] += 0.01
        return True

    def hosts(self, guest: Task) -> list[Task]:
        found = [self.owner[place] for place in guest.on if place in self.owner]
        return list(dict.fromkeys(host for host in found if host.started))


def ends_of(jobs: Sequence[TraceJob]) -> list[float]:
    """Return when each job ends, by Muri's cost model."""
    tasks = [_task(index, each) for index, each in enumerate(jobs)]
    machines, pending, running, coming = Machines(), list[Task](), list[Task](), list(tasks)
    while coming or running:
        arrival = coming[0].submit_s if coming else inf
        completion, ending = inf, list[Task]()
        for task in running:
            if ending and isclose(task.ends, completion, rel_tol=1e-9):
                ending.append(task)
            elif task.ends < completion:
                completion, ending = task.ends, [task]
        now = min(arrival, completion)
        for task in ending if completion <= arrival else ():
            running.remove(task)
            task.ended, task.started = now, False
            machines.release(task)
        while coming and coming[0].submit_s == now:
            pending.append(coming.pop(0))
        for task in running:
            task.left -= max(now - task.checked - task.profile.start_s, 0.0) / task.pace_s
            task.checked = now
        for task in sorted(pending, key=lambda task: (task.guest, task.submit_s, task.index)):
            if machines.start_guest(task) if task.guest else machines.start_owner(task):
                pending.remove(task)
                running.append(task)
                task.started, task.checked = True, now
        for task in running:
            slow = [_cycles(task.profile, host.profile) * host.profile.iteration_s for host in machines.hosts(task)]
            task.pace_s = max([task.profile.iteration_s, *(slow if task.guest else ())])
            task.ends = now + task.left * task.pace_s
    return [task.ended for task in tasks]


def _task(index: int, each: TraceJob) -> Task:
    job = each.job
    assert job.profile is not None
    left = each.work_s / job.profile.iteration_s if job.iterations is None else float(job.iterations)
    return Task(index, each.submit_s, job.gpus, job.opportunistic, job.profile, left)


def _cycles(guest: Profile, host: Profile) -> int:
    gpu, network = guest.gpu_s, guest.network_s
    gap = host.gpu_s + host.network_s
    cycles, rest = floor(guest.data_s / gap), guest.data_s % gap
    if rest > 0:
        cycles += 1
        gpu -= min(gpu, host.network_s, gap - rest)
    gap = host.data_s + host.network_s
    cycles, rest = cycles + floor(gpu / gap), gpu % gap
    if rest > 0:
        cycles += 1
        if rest < host.data_s:
            network -= min(network, host.data_s + host.gpu_s - rest)
    gap = host.data_s + host.gpu_s
    cycles, rest = cycles + floor(network / gap), network % gap
    return cycles + (rest > host.data_s)
