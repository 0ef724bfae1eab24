"""One policy on one workload, in a process of its own: a setting goes in, figures and what to draw come out."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from weft.compare import workload
from weft.compare.process_pool import Tick
from weft.core.metrics.figures import Record, figures, gather
from weft.report.digest import Digest, digest
from weft.sim.costs.muri import makespan_since
from weft.sim.simulation import Setting, simulate

OF_JOBS: Final = (
    "jobs", "finished", "avg_jct_s", "p50_jct_s", "p99_jct_s", "avg_queue_s", "avg_first_wait_s", "fairness_max_rho",
)  # fmt: skip
"""Figures that jobs outside the measured span are left out of."""


@dataclass(frozen=True)
class Span:
    """Jobs submitted within it are measured."""

    first_s: float = float("-inf")
    last_s: float = float("inf")

    def holds(self, submit_s: float) -> bool:
        return self.first_s <= submit_s <= self.last_s


@dataclass(frozen=True)
class Trial:
    setting: bytes
    """As `pack` makes it: made once for all policies, it is not copied in between."""
    policy: str
    seed: int
    span: Span = Span()
    draw: bool = False


@dataclass(frozen=True)
class Result:
    values: Mapping[str, Any]
    drawn: Digest | None


def pack(setting: Setting) -> bytes:
    return pickle.dumps(setting, protocol=pickle.HIGHEST_PROTOCOL)


def run(trial: Trial, tick: Tick) -> Result:
    gc.disable()  # nothing that is made here is garbage before the simulation
    setting: Setting = replace(pickle.loads(trial.setting), policy=trial.policy)
    gc.enable()
    outcome = simulate(setting, progress=tick)
    gc.freeze()
    solo_s = {each.job.id: each.work_s for each in setting.jobs}
    record = gather(outcome.journal.read(), solo_s, since=makespan_since(setting.model))
    measured = [job for job in record.jobs if trial.span.holds(job.submit)]
    values = workload.values(setting, outcome, record)
    if len(measured) < len(record.jobs):
        part = asdict(figures(Record(measured)))
        values |= {key: part[key] for key in OF_JOBS}
    drawn = digest(outcome.journal.read(), record, measured) if trial.draw else None
    return Result(values, drawn)
