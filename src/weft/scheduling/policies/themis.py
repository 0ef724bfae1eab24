"""Themis (NSDI'20): finish-time fairness as in Gavel's policy code, which Muri's simulator runs.

Each job j has rho_j: its duration here divided by its duration on an equal share of the cluster. Shares x_j in [0, 1]
with sum(gpus_j * x_j) <= GPUs are chosen to minimise the largest rho. The job that has received least of its share goes
first. For a given rho every x_j is explicit, so bisection finds the shares.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from weft.model import Fact, Seconds
from weft.scheduling.core.ports import Ask, JobView, Replanner, View
from weft.scheduling.policy_state.ideal_progress import IdealProgress, fairest_shares

NEVER_RUN = 1e9


@dataclass(frozen=True)
class Themis(Replanner):
    """Finish-time fairness: the largest slowdown of any job as small as possible."""

    preempts = True
    interval_s = 360.0

    def key(self, job: JobView, now: Seconds) -> float:
        """Between two plans, give idle GPUs to the first job submitted."""
        return job.submitted_at

    def rank(self, view: View) -> Iterable[Ask]:
        jobs: list[JobView] = sorted([*view.waiting, *view.active], key=lambda job: job.seq)
        if not jobs or not view.gpus:
            return []
        share = self._shares(jobs, view)
        first = sorted(range(len(jobs)), key=lambda i: (-_claim(jobs[i], share[i], view.now), -share[i]))
        trial = view.trial()
        chosen = [jobs[i] for i in first if trial.fits(jobs[i].shape)]
        chosen.sort(key=lambda job: -job.gpus)
        return [Ask((job.id,), job.gpus, job.wanted_share, job.job.where) for job in chosen]

    def _shares(self, jobs: list[JobView], view: View) -> list[float]:
        import numpy as np

        memo: IdealProgress = view.memo
        gpus = np.array([job.gpus for job in jobs], dtype=float)
        work = np.array([job.remaining(view.now) for job in jobs])
        work[~np.isfinite(work)] = 3600.0
        left = work / np.array([memo.iteration_s[job.id] for job in jobs])
        alone = np.minimum(1.0, ceil(view.gpus / len(jobs)) / np.maximum(gpus, 1))
        ideal = np.array([memo.done[job.id] for job in jobs]) + left / alone
        age = view.now - np.array([job.submitted_at for job in jobs])
        return list(fairest_shares(age, np.maximum(work, 1e-9), np.maximum(ideal, 1e-9), gpus, view.gpus))

    def memo(self) -> IdealProgress:
        return IdealProgress()

    def observe(self, memo: IdealProgress, fact: Fact) -> IdealProgress:
        memo.apply(fact)
        return memo


def _claim(job: JobView, share: float, now: float) -> float:
    """Return a job's claim: its share divided by its attained time."""
    attained = job.attained(now)
    return share / attained if attained > 0 else NEVER_RUN * share
