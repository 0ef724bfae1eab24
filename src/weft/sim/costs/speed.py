"""How fast runs go: alone, spread over nodes and switches, woven, or beside others on the same GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from weft.model import Job, JobId, NodeId, Profile, Slots, Start
from weft.weaving.colocated import host_cycles_per_iteration
from weft.weaving.pace import Pace

ACROSS_NODES = 1.17
"""How much slower a gang goes on more than one node: 114.8 against 98.0 images/s, same server and different servers, in
table 4 of Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", ATC'19."""
ACROSS_SWITCHES = 1.35
"""The same for more than one switch: an assumption, twice the excess of crossing nodes."""


@dataclass(slots=True, eq=False)
class Run:
    """A run as the simulator sees it."""

    job: Job
    run: int
    slots: Slots
    guaranteed: bool
    members: tuple[JobId, ...]
    """All members where it is woven."""
    started: bool = False
    left: float = 0.0
    """Work still to do at `since`: solo seconds, or iterations under Muri's rules."""
    crash_left: float = 0.0
    """How much is still to do when it crashes; 0: it does not."""
    pace: float = 1.0
    """Seconds per unit of work."""
    overhead: float = 0.0
    since: float = 0.0
    end: float = 0.0
    version: int = 0

    @classmethod
    def of(cls, job: Job, start: Start) -> Run:
        return cls(job, start.run, start.slots, start.share.request > 0, start.weave)


@dataclass
class Speed:
    """Slow-down of a run against its solo time."""

    switches: Mapping[NodeId, str]
    pace: Pace = field(default_factory=Pace)
    sharing: bool = False
    """Whether runs may sit on the same GPUs without being woven."""
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
        """Takes a lost node from a run that has GPUs elsewhere too; False, and nothing is taken, where it has not."""
        rest = tuple(part for part in run.slots if part[0] != lost)
        if rest:
            self.leave(run)
            run.slots = rest
            self.arrive(run)
        return bool(rest)

    def neighbours(self, run: Run) -> list[Run]:
        """Other runs on the same GPUs, not woven with it."""
        if not self.sharing:
            return []
        others = (n for gpu in _gpus(run.slots) for n in self.on[gpu])
        return list(dict.fromkeys(n for n in others if n is not run and n.job.id not in run.members))

    def span(self, slots: Slots) -> float:
        """How much slower for being spread out."""
        if len(slots) < 2:
            return 1.0
        one_switch = len({self.switches[node] for node, _ in slots}) == 1
        return self.across_nodes if one_switch else self.across_switches

    def woven(self, run: Run, members: Iterable[Run]) -> float:
        """How much slower for keeping the pace of its weave."""
        profiles = [profile_of(member) for member in members]
        return self.pace.iteration_s(profiles) / profile_of(run).iteration_s

    def beside(self, run: Run) -> float:
        """How much slower for those it shares its GPUs with: a guaranteed run never, others by what is left over."""
        solo = slowest = profile_of(run).iteration_s if run.job.profile else 1.0
        if run.guaranteed:
            return 1.0
        for other in self.neighbours(run):
            if not other.guaranteed:
                slowest = max(slowest, 2 * solo)
            elif run.job.profile and other.job.profile:
                host = other.job.profile
                slowest = max(slowest, host_cycles_per_iteration(run.job.profile, host) * host.iteration_s)
        return slowest / solo


def profile_of(run: Run) -> Profile:
    assert run.job.profile is not None, f"job {run.job.id} is woven but has no profile"
    return run.job.profile


def _gpus(slots: Slots) -> Iterable[tuple[NodeId, int]]:
    return ((node, gpu) for node, gpus in slots for gpu in gpus)
