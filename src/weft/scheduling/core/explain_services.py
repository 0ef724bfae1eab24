"""Explanations of services: how many replicas are wanted and why, which are not there, and which runs hold the room."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from weft.errors import UnknownName
from weft.model import WHOLE, JobId, Seconds
from weft.scheduling.core.reasons import count_gpus
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.share_reasons import explain_room, format_share
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State


@dataclass(frozen=True)
class ServiceExplanation:
    service: str
    at: Seconds
    wanted: int
    why_wanted: str
    """The reason of the last change of the number; empty: the service was not resized."""
    ready: int
    starting: int
    draining: int
    waiting: tuple[JobId, ...]
    """The replicas that wait for GPUs."""
    why_waiting: str
    """Empty: none waits."""
    holders: tuple[tuple[str, int], ...]
    """The holders of what a replica could have, such as training, and how much of it; empty if none waits."""
    unit: str = "GPUs"
    """The resource that waiting replicas lack: GPUs, or CPUs or MB of RAM if they need no GPU."""

    @property
    def held_by(self) -> str:
        """The holders as text."""
        if self.unit != "GPUs":
            return ", ".join(f"{name} with {amount:,} {self.unit}" for name, amount in self.holders)
        return ", ".join(f"{name} on {count_gpus(gpus)}" for name, gpus in self.holders)

    def lines(self) -> list[str]:
        why = f" ({self.why_wanted})" if self.why_wanted else ""
        lines = [f"service {self.service} at {self.at:.0f} s: {_count(self.wanted)} wanted{why}"]
        lines.append(
            f"  {self.ready} ready, {self.starting} starting, {len(self.waiting)} waiting, {self.draining} draining"
        )
        if self.waiting:
            lines.append(f"  {', '.join(self.waiting[:5])}: {self.why_waiting}")
            lines.append(f"  held by {self.held_by}" if self.holders else "  no node could hold a replica")
        return lines


def explain_service(scheduler: Scheduler, name: str, *, at: Seconds | None = None) -> ServiceExplanation:
    """Explain a service as of the scheduler's last instant, or as of `at` if nothing else happens until then."""
    state = scheduler.state
    service = state.services.by_name.get(name)
    if service is None:
        raise UnknownName("service", name, list(state.services.by_name)[:2000])
    replicas = list(service.replicas.values())
    waiting = [replica for replica in replicas if replica.id in state.services.waiting]
    draining = sum(replica.draining_since is not None for replica in replicas)
    return ServiceExplanation(
        name,
        state.now if at is None else at,
        service.wanted,
        service.why,
        len(service.ready()),
        len(service.staying()) - len(service.ready()) - len(waiting),
        draining,
        tuple(replica.id for replica in waiting),
        _why_waiting(scheduler, waiting[0]) if waiting else "",
        _holders(scheduler, waiting[0]) if waiting else (),
        _unit(waiting[0]) if waiting else "GPUs",
    )


def _unit(replica: JobState) -> str:
    """Return what a waiting replica lacks."""
    return "GPUs" if replica.gpus else "CPUs" if replica.job.cpus else "MB of RAM"


def _why_waiting(scheduler: Scheduler, replica: JobState) -> str:
    if not replica.gpus:
        cpus, ram_mb = replica.job.cpus, replica.job.ram_mb
        needs = [f"{cpus} CPU{'s' * (cpus != 1)}" * bool(cpus), f"{ram_mb:,} MB of RAM" * bool(ram_mb)]
        return f"no node has {' and '.join(filter(None, needs)) or 'a place for it'} free"
    share, gpus = replica.wanted_share, count_gpus(replica.gpus)
    memory = f" with {replica.job.memory_mb.max:,} MB" if replica.job.memory_mb else ""
    preempts = "" if scheduler.policy.preempts else "; the policy preempts no training for it"
    if share == WHOLE:
        return f"no node has {gpus}{memory} free{preempts}"
    lacks = explain_room(scheduler.state.resources, replica.shape)
    why = f": {lacks}" if lacks else ""
    return f"no node has {gpus}{memory} free for a share of {format_share(share)}{why}{preempts}"


def _holders(scheduler: Scheduler, replica: JobState) -> tuple[tuple[str, int], ...]:
    """Return what holds that which the replica lacks, on the nodes that could hold it; most first."""
    state = scheduler.state
    if not replica.gpus:
        return _holders_without_gpus(state, replica)
    large_enough = {host.node.id for host in state.resources.nodes if len(host.node.gpus) >= replica.gpus}
    held = {
        (node, gpu, _name(run))
        for run in state.active.values()
        for node, gpus in run.slots
        for gpu in gpus
        if node in large_enough
    }
    found = Counter(name for _, _, name in held)
    return tuple(found.most_common())


def _holders_without_gpus(state: State, replica: JobState) -> tuple[tuple[str, int], ...]:
    found: Counter[str] = Counter()
    for run in state.active.values():
        amount = run.job.cpus if replica.job.cpus else run.job.ram_mb
        if amount:
            found[_name(run)] += amount * max(run.gpus, 1)
    return tuple(found.most_common())


def _name(job: JobState) -> str:
    return "training" if job.job.replica is None else f"replicas of {job.job.replica.service}"


def _count(replicas: int) -> str:
    return "1 replica" if replicas == 1 else f"{replicas} replicas"
