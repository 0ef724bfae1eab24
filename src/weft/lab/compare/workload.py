"""Workloads: a trace on a cluster, with the rules of its simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weft.errors import Infeasible, InputError
from weft.model import Job, Node, Team
from weft.scheduling.core.ports import Placement
from weft.scheduling.core.reasons import count_gpus
from weft.scheduling.plugins import registry
from weft.scheduling.weaving.rates import Contention, Order
from weft.sim.clusters.feasible_jobs import split_feasible
from weft.sim.clusters.reader import read_cluster
from weft.sim.costs.real import CHECKPOINT_INTERVAL_S
from weft.sim.faults.uncertainty import CERTAIN, Uncertainty
from weft.sim.simulation import Model, Setting, placement_of
from weft.sim.traces.trace import Trace, TraceJob, line_of, read_trace, with_load

if TYPE_CHECKING:
    from weft.sim.serving.workload import ServiceWorkload

DEMO: Final = "demo"
"""The name of the built-in trace."""
MAX_LISTED: Final = 10
"""Jobs, users or reasons that one message lists."""
Warn = Callable[[str], None]
"""Called with a warning of one or several lines."""


def ignore(_: str) -> None:
    """Drop a warning."""


@dataclass(frozen=True)
class ReadWorkload:
    """A trace and nodes that come from no file, such as the history of a scheduler."""

    trace: Trace
    nodes: Sequence[Node]


@dataclass(frozen=True)
class Workload:
    """The parameters of a workload; `load_workload` reads the files that it names."""

    trace: str
    """A file, or `demo`."""
    cluster: str
    """NODESxGPUS, or a file."""
    placement: str | None = None
    """None: the default of each policy."""
    model: Model = "real"
    """The costs of starts and stops."""
    checkpoint_interval_s: float = CHECKPOINT_INTERVAL_S
    seed: int = 0
    """The seed of all random draws."""
    format: str = "auto"
    """The format of the trace; `auto`: by its header."""
    skip_infeasible: bool = False
    """Leave out jobs that never fit the cluster, instead of rejecting the trace."""
    uncertainty: Uncertainty = CERTAIN
    retries: int = 0
    """Retries of jobs for which the trace gives none."""
    load: float = 1.0
    """The factor by which to make arrivals denser than in the trace."""
    order: Order | None = None
    """The order in which members of weaves take turns; None: fair, and slots in Muri's model."""
    contention: Contention | None = None
    """The slowdown of members by each other otherwise; None: by Muri's factors in slots, else not at all."""
    services: str = ""
    """A file of services next to the jobs of the trace; empty: none."""
    teams: str = ""
    """A file of teams that share the GPUs; empty: none."""
    given: ReadWorkload | None = None
    """The trace, and the nodes unless `cluster` names others; None: in files."""


@dataclass(frozen=True)
class LoadedWorkload:
    """A workload with its nodes and the jobs that they can hold."""

    workload: Workload
    trace: str
    """The name of the trace."""
    nodes: Sequence[Node]
    jobs: Sequence[TraceJob]
    skipped: Sequence[str]
    """The ids of the jobs left out."""
    services: Sequence[ServiceWorkload] = ()
    teams: Sequence[Team] = ()

    @property
    def cluster(self) -> str:
        return self.workload.cluster

    @property
    def gpus(self) -> int:
        return sum(len(node.gpus) for node in self.nodes)

    def setting(self, policy: str) -> Setting:
        """Return the setting of a simulation under this policy."""
        workload = self.workload
        return Setting(
            self.nodes, self.jobs, policy, workload.placement, workload.model, workload.checkpoint_interval_s,
            seed=workload.seed, uncertainty=workload.uncertainty, order=workload.order,
            contention=workload.contention, services=self.services, teams=self.teams,
        )  # fmt: skip


def check_names(policies: Sequence[str], placement: str | None = None) -> None:
    """Raise if a policy, its options or the placement is wrong. Call it before reading a long trace."""
    for policy in policies:
        registry.load_policy(policy)
    if placement is not None:
        registry.load_placement(placement)


def load_workload(
    workload: Workload, policies: Sequence[str], *, lenient: bool = False, warn: Warn = ignore
) -> LoadedWorkload:
    """Read the trace and the cluster. Raise Infeasible for jobs that can never run, or leave them out with a warning.

    With `lenient`, ignore a placement that raises here: the trial that uses it reports the error."""
    given = workload.given
    nodes = (
        given.nodes if given is not None and workload.cluster == given.trace.name else read_cluster(workload.cluster)
    )
    services = _read_services(workload, nodes)
    trace = given.trace if given is not None else _open(workload)
    trace, teams = with_load(trace, workload.load), _read_teams(workload)
    jobs, infeasible = split_feasible(trace.jobs, nodes, _placements(workload, policies), lenient=lenient)
    if infeasible and not (workload.skip_infeasible and jobs):
        raise _infeasible(workload, trace, jobs, infeasible)
    if infeasible:
        warn(f"left out {len(infeasible):,} of {len(trace.jobs):,} jobs\n{_list_by_reason(infeasible)}")
    _warn_of_unknown_users(policies, jobs, warn)
    _warn_of_unknown_speeds(nodes, warn)
    skipped = [each.job.id for each, _ in infeasible]
    return LoadedWorkload(workload, trace.name, nodes, _with_teams(jobs, teams, warn), skipped, services, teams)


def _read_teams(workload: Workload) -> Sequence[Team]:
    if not workload.teams:
        return ()
    from weft.access.teams.file import read_teams

    return read_teams(workload.teams)


def _with_teams(jobs: Sequence[TraceJob], teams: Sequence[Team], warn: Warn) -> Sequence[TraceJob]:
    if not teams:
        return jobs
    from weft.sim.teams import assign_teams

    found = assign_teams(jobs, teams)
    if not any(each.job.user for each in jobs):
        warn("the trace names no users: its jobs take turns over the teams")
    without = sum(not each.job.team for each in found)
    if without:
        warn(f"{without:,} of {len(found):,} jobs belong to no team: their users are no members of one")
    return found


def _open(workload: Workload) -> Trace:
    return open_trace(workload.trace, format=workload.format, seed=workload.seed, retries=workload.retries)


def _read_services(workload: Workload, nodes: Sequence[Node]) -> Sequence[ServiceWorkload]:
    if not workload.services:
        return ()
    if workload.model == "muri":
        raise InputError("--services needs --model real", hint="Muri's model has no services")
    from weft.lab.compare.services_file import read_services

    found = read_services(workload.services, workload.seed)
    for each in found:
        template = each.service.template
        if not any(_fits(template, node) for node in nodes):
            memory = f" with {template.memory_mb.max:,} MB each" if template.memory_mb else ""
            what = f"no node can hold a replica of {each.service.name}: it needs {count_gpus(template.gpus)}{memory}"
            raise Infeasible(what, where=each.where, hint=f"the cluster is {workload.cluster}")
    return found


def _fits(template: Job, node: Node) -> bool:
    """Return whether an empty node can hold a replica; the GPUs of a replica are on one node."""
    return sum(gpu.memory_mb >= template.memory_mb.max for gpu in node.gpus) >= template.gpus


def open_trace(name: str, *, format: str = "auto", seed: int = 0, retries: int = 0) -> Trace:
    """Return a trace from a file, or the built-in one. `retries`: for jobs for which the trace gives none."""
    if name == DEMO:
        from weft.sim.traces.generator import demo

        return demo(retries)
    return read_trace(name, format=format, seed=seed, retries=retries)


def shorten(names: Sequence[str]) -> str:
    """Return the first names, joined by commas, and how many more there are."""
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def _warn_of_unknown_speeds(nodes: Sequence[Node], warn: Warn) -> None:
    models = sorted({gpu.model or "unnamed" for node in nodes for gpu in node.gpus})
    if len(models) > 1:
        names = ", ".join(models)
        warn(f"the cluster mixes GPU models ({names}), whose speeds are not known: a job takes as long on each")


def _warn_of_unknown_users(policies: Sequence[str], jobs: Sequence[TraceJob], warn: Warn) -> None:
    """Warn of users that a policy has settings for, but that submit no job."""
    for policy in policies:
        named = getattr(registry.load_policy(policy), "users", {})
        unknown = sorted(set(named) - {each.job.user for each in jobs}) if named else []
        if unknown:
            warn(f"{policy}: no job of the trace belongs to {shorten(unknown)}")


def _placements(workload: Workload, policies: Sequence[str]) -> list[Placement]:
    """Return the placements that the policies will use, each once."""
    names = [placement_of(Setting((), (), policy, workload.placement, workload.model)) for policy in policies]
    return [registry.load_placement(name) for name in dict.fromkeys(names)]


def _infeasible(
    workload: Workload, trace: Trace, jobs: Sequence[TraceJob], bad: Sequence[tuple[TraceJob, str]]
) -> Infeasible:
    first, reason = bad[0]
    name, spec = workload.trace, workload.cluster
    where = name if name == DEMO or workload.given is not None else f"{name}:{line_of(name, trace, first)}"
    if not jobs:
        what = f"no job of the trace fits {spec}: job {first.job.id} {reason}"
        return Infeasible(what, where=where, hint="simulate a larger cluster")
    more = f"; {len(bad) - 1:,} more are like it" if len(bad) > 1 else ""
    what = f"job {first.job.id} can never run: it {reason}{more}"
    return Infeasible(what, where=where, hint=f"simulate a larger cluster than {spec}, or add --skip-infeasible")


def _list_by_reason(bad: Sequence[tuple[TraceJob, str]]) -> str:
    ids: dict[str, list[str]] = {}
    for each, reason in bad:
        ids.setdefault(reason, []).append(each.job.id)
    lines = [f"  each {reason}: {shorten(jobs)}" for reason, jobs in ids.items()]
    return "\n".join([*lines[:MAX_LISTED], *(["  ..."] if len(lines) > MAX_LISTED else [])])
