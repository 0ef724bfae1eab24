"""Means with confidence intervals, ratios to a baseline, and the best policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, sqrt
from typing import Any, Final, NamedTuple

FIGURES: Final = {
    "avg_jct_s": "average JCT",
    "p50_jct_s": "median JCT",
    "p99_jct_s": "99th percentile JCT",
    "makespan_s": "makespan",
    "avg_queue_s": "average wait",
    "gpu_utilisation": "GPU utilisation",
    "preemptions": "preemptions",
    "fairness_max_rho": "largest rho",
}
"""The figures of a comparison, in display order."""
RELATIVE: Final = ("avg_jct_s", "p50_jct_s", "p99_jct_s", "makespan_s")
"""Figures that are also shown relative to the baseline."""
LARGER_IS_BETTER: Final = frozenset({"gpu_utilisation"})

T_975: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t, 97.5 %, for 1 to 30 degrees of freedom."""
Z_975: Final = 1.959964


class Estimate(NamedTuple):
    mean: float
    ci95: float | None
    """Half the width of the mean's 95 % confidence interval; None with a single value."""


class Outcome(NamedTuple):
    """The figures of a policy, or its error."""

    policy: str
    figures: Mapping[str, Estimate | None]
    failed: str = ""


def t_975(freedom: int) -> float:
    """Return Student's t: from the table, or beyond it from the Cornish-Fisher series, which is as exact there."""
    if freedom <= len(T_975):
        return T_975[freedom - 1]
    z = Z_975
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def estimate(values: Sequence[float | None]) -> Estimate | None:
    """Return the mean of the known values and its confidence interval; None if no value is known."""
    known = [float(value) for value in values if value is not None]
    if not known:
        return None
    mean = fsum(known) / len(known)
    if len(known) == 1:
        return Estimate(mean, None)
    variance = fsum((value - mean) ** 2 for value in known) / (len(known) - 1)
    return Estimate(mean, t_975(len(known) - 1) * sqrt(variance / len(known)))


def summarise(policy: str, runs: Sequence[Mapping[str, Any]], failed: str = "") -> Outcome:
    """Combine a policy's runs, one per seed."""
    return Outcome(policy, {key: estimate([run[key] for run in runs]) for key in FIGURES}, failed)


def best_policies(outcomes: Sequence[Outcome], key: str) -> set[str]:
    """Return the policies with the best figure; none if all are equal."""
    means = {each.policy: found.mean for each in outcomes if not each.failed and (found := each.figures[key])}
    if len(set(means.values())) < 2:
        return set()
    top = max(means.values()) if key in LARGER_IS_BETTER else min(means.values())
    return {policy for policy, mean in means.items() if mean == top}


def choose_baseline(outcomes: Sequence[Outcome], wanted: str | None) -> Outcome | None:
    """Return the wanted outcome, or the one with the best average JCT if that failed or none is wanted."""
    able = [each for each in outcomes if not each.failed and each.figures["avg_jct_s"]]
    for each in able:
        if each.policy == wanted:
            return each
    return min(able, key=lambda each: found.mean if (found := each.figures["avg_jct_s"]) else 0.0, default=None)


def ratio(one: Outcome, other: Outcome | None, key: str) -> float | None:
    """Return the ratio of the two figures; None if either is unknown or the baseline's is 0."""
    mine, base = one.figures.get(key), other.figures.get(key) if other else None
    return mine.mean / base.mean if mine and base and base.mean else None
