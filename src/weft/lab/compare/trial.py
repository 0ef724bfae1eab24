"""Trials: one policy on one workload, simulated and measured, in this process or in a pool."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from weft.history.metrics.figures import Record, figures, gather
from weft.sim.costs.muri import makespan_since
from weft.sim.simulation import Outcome, Setting, placement_of, simulate

if TYPE_CHECKING:
    from weft.lab.compare.process_pool import Tick
    from weft.lab.report.digest import Digest, Served

JOB_FIGURES: Final = (
    "jobs", "finished", "avg_jct_s", "p50_jct_s", "p99_jct_s", "avg_queue_s", "avg_first_wait_s", "fairness_max_rho",
)  # fmt: skip
"""Figures that count only the jobs within the measured span."""


@dataclass(frozen=True)
class Span:
    """The span of time whose submissions are measured."""

    first_s: float = float("-inf")
    last_s: float = float("inf")

    def contains(self, submit_s: float) -> bool:
        return self.first_s <= submit_s <= self.last_s


@dataclass(frozen=True)
class Trial:
    """The task of a process in a pool: one policy with one seed."""

    setting: bytes
    """The result of `pack`: pickled once for all policies."""
    policy: str
    seed: int
    span: Span = Span()
    with_digest: bool = False


@dataclass(frozen=True)
class TrialResult:
    values: Mapping[str, Any]
    """The figures, as the fields of a JSON object."""
    digest: Digest | None
    """The data for pictures, if the trial requested it."""


@dataclass(frozen=True)
class Measurement:
    """A simulation in this process: its outcome with the journal, its record and its figures."""

    outcome: Outcome
    record: Record
    values: dict[str, Any]
    """The figures, as the fields of a JSON object."""


def pack(setting: Setting) -> bytes:
    """Return a setting as bytes for `Trial`."""
    return pickle.dumps(setting, protocol=pickle.HIGHEST_PROTOCOL)


def measure(setting: Setting, progress: Tick | None = None) -> Measurement:
    """Simulate and compute the figures. Call `progress` with the number of ended jobs."""
    outcome = simulate(setting, progress=progress)
    gc.freeze()  # the facts live on: the garbage collector need not walk them
    solo_s = {each.job.id: each.work_s for each in setting.jobs}
    record = gather(outcome.journal.read(), solo_s, since=makespan_since(setting.model))
    gc.unfreeze()
    return Measurement(outcome, record, _values(setting, outcome, record))


def run(trial: Trial, tick: Tick) -> TrialResult:
    """Run a trial. This is the `Work` of the processes in the pool."""
    gc.disable()  # unpickling creates no garbage
    setting: Setting = replace(pickle.loads(trial.setting), policy=trial.policy)
    gc.enable()
    found = measure(setting, tick)
    gc.freeze()  # the process ends soon: collecting garbage is wasted time
    measured = [job for job in found.record.jobs if trial.span.contains(job.submit)]
    values = found.values
    if len(measured) < len(found.record.jobs):
        part = asdict(figures(Record(measured)))
        values |= {key: part[key] for key in JOB_FIGURES}
    if not trial.with_digest:
        return TrialResult(values, None)
    from weft.lab.report.digest import make_digest  # imported here because `weft sim` needs no pictures

    return TrialResult(values, make_digest(found.outcome.journal.read(), found.record, measured, served(found.outcome)))


def _values(setting: Setting, outcome: Outcome, record: Record) -> dict[str, Any]:
    facts = len(outcome.journal)
    return {
        "policy": setting.policy,
        "placement": placement_of(setting),
        **asdict(figures(record)),
        **_services(outcome),
        **_teams(setting, outcome, record),
        "cpu_s": outcome.cpu_s,
        "facts": facts,
        "facts_per_s": facts / outcome.cpu_s if outcome.cpu_s else None,
    }


def _teams(setting: Setting, outcome: Outcome, record: Record) -> dict[str, Any]:
    """Return the figures of teams; nothing without teams."""
    return {} if outcome.teams is None else {"teams": outcome.teams.values(setting.teams, record)}


def _services(outcome: Outcome) -> dict[str, Any]:
    """Return the figures of services, and of the GPUs that they share with training; nothing without services."""
    if outcome.occupancy is None:
        return {}
    services = {name: found.values() for name, found in outcome.services.items()}
    return {"services": services, "occupancy": outcome.occupancy.values()}


def served(outcome: Outcome) -> Served | None:
    """Return the data for the pictures of services; None without services."""
    from weft.lab.report.digest import Served, ServiceSeries

    if outcome.occupancy is None:
        return None
    series = {
        name: ServiceSeries(found.times_s, found.rates, found.replicas, found.p95_times_s, found.p95s_s)
        for name, found in outcome.services.items()
    }
    return Served(series, outcome.occupancy.times_s, outcome.occupancy.gpus)
