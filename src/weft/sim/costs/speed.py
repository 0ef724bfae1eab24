"""The speed of runs: alone, spread over nodes and switches, woven, or sharing GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from weft.model import Job, JobId, NodeId, Profile, Slots, Start
from weft.scheduling.weaving.colocated import host_cycles_per_iteration
from weft.scheduling.weaving.pace import Pace
from weft.scheduling.weaving.rates import Rates

ACROSS_NODES = 1.17
"""Slowdown of a gang on more than one node: 114.8 images/s on the same server against 98.0 on different servers, in
table 4 of Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", ATC'19."""
ACROSS_SWITCHES = 1.35
"""Slowdown of a gang on more than one switch: an assumption, twice the excess for nodes."""


class Run:
    """A run as the simulator sees it."""

    __slots__ = (
        "crash_left", "end", "guaranteed", "job", "left", "members", "overhead", "pace", "run", "share", "since",
        "slots", "started", "version",
    )  # fmt: skip

    def __init__(self, job: Job, start: Start, left: float, crash_left: float) -> None:
        self.job, self.run, self.slots = job, start.run, start.slots
        self.share, self.guaranteed = start.share, start.share.request > 0
        self.members: tuple[JobId, ...] = start.weave
        """All members of its weave; empty: not woven."""
        self.started = False
        self.left = left
        """Remaining work at `since`: solo seconds, or iterations in Muri's model."""
        self.crash_left = crash_left
        """Remaining work at which it crashes; 0: it does not crash."""
        self.pace = 1.0
        """Seconds per unit of work."""
        self.overhead = self.since = self.end = 0.0
        self.version = 0


@dataclass
class Speed:
    """The slowdown of runs against their solo time."""

    switches: Mapping[NodeId, str]
    pace: Pace | Rates = field(default_factory=Pace)
    sharing: bool = False
    """True if runs may share GPUs without being woven."""
    across_nodes: float = ACROSS_NODES
    across_switches: float = ACROSS_SWITCHES
    on: dict[tuple[NodeId, int], list[Run]] = field(default_factory=dict)

    def arrive(self, run: Run) -> None:
        if self.sharing:
            for gpu in _gpus(run.slots):
                self.on.setdefault(gpu, []).append(run)

    def leave(self, run: Run) -> None:
        if self.sharing:
            for gpu in _gpus(run.slots):
                self.on[gpu].remove(run)

    def shrink(self, run: Run, lost: NodeId) -> bool:
        """Remove a lost node from a run that also has GPUs elsewhere. Return False and do nothing if it has none."""
        rest = tuple(part for part in run.slots if part[0] != lost)
        if rest:
            self.leave(run)
            run.slots = rest
            self.arrive(run)
        return bool(rest)

    def neighbours(self, run: Run) -> list[Run]:
        """Return other runs on the same GPUs that are not woven with this one."""
        if not self.sharing:
            return []
        others = (n for gpu in _gpus(run.slots) for n in self.on[gpu])
        return list(dict.fromkeys(n for n in others if n is not run and n.job.id not in run.members))

    def span(self, slots: Slots) -> float:
        """Return the slowdown of a run that is spread over nodes or switches."""
        if len(slots) < 2:
            return 1.0
        one_switch = len({self.switches[node] for node, _ in slots}) == 1
        return self.across_nodes if one_switch else self.across_switches

    def woven(self, run: Run, members: Iterable[Run]) -> float:
        """Return the slowdown of a run at the pace of its weave."""
        runs = list(members)
        times = self.pace.iterations_s([profile_of(member) for member in runs])
        return times[runs.index(run)] / profile_of(run).iteration_s

    def shared(self, run: Run) -> float:
        """Return the slowdown of a run that shares GPUs: none if guaranteed, else by what its hosts leave over."""
        if run.guaranteed:
            return self._next_to_services(run)
        return self.guest_iteration_s(run) / (profile_of(run).iteration_s if run.job.profile else 1.0)

    def guest_iteration_s(self, run: Run) -> float:
        """Return the iteration time of a run that is not guaranteed, next to the runs on its GPUs."""
        solo = slowest = profile_of(run).iteration_s if run.job.profile else 1.0
        for other in self.neighbours(run):
            if not other.guaranteed:
                slowest = max(slowest, 2 * solo)
            elif run.job.profile and other.job.profile:
                host = other.job.profile
                slowest = max(slowest, host_cycles_per_iteration(run.job.profile, host) * host.iteration_s)
        return slowest

    def _next_to_services(self, run: Run) -> float:
        """Return the slowdown next to replicas. Alone, a run has its limit; next to replicas it has what their requests
        leave, at least its own request. The slowest of its GPUs counts."""
        share = run.share
        if share.request >= 1:
            return 1.0
        most = 0.0
        for gpu in _gpus(run.slots):
            most = max(most, sum(n.share.request for n in self.on[gpu] if n.job.replica is not None))
        return share.limit / min(share.limit, max(share.request, 1.0 - most))


def profile_of(run: Run) -> Profile:
    assert run.job.profile is not None, f"job {run.job.id} is woven but has no profile"
    return run.job.profile


def _gpus(slots: Slots) -> Iterable[tuple[NodeId, int]]:
    return ((node, gpu) for node, gpus in slots for gpu in gpus)
