"""Compares policies on one workload: each policy with each seed is a trial in its own process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from weft.errors import InputError
from weft.lab.compare.process_pool import Progress, SilentProgress, TaskFailure, count_cpus, run_all
from weft.lab.compare.trial import Span, Trial, TrialResult, pack, run
from weft.lab.compare.workload import LoadedWorkload, Warn, Workload, ignore, load_workload
from weft.lab.report.digest import Digest
from weft.lab.report.stats import FIGURES, Outcome, estimate, summarise
from weft.scheduling.weaving.pace import Pace
from weft.scheduling.weaving.rates import Rates
from weft.sim.bounds import WeaveRules, compute_bounds
from weft.sim.simulation import pace_of

OpenProgress = Callable[[Sequence[str], Sequence[int]], AbstractContextManager[Progress]]
"""Called with the policy and the number of jobs of each trial, before the first trial starts."""


@dataclass(frozen=True)
class Trim:
    """The start and end of the arrivals to leave out: jobs submitted then do not count in job figures."""

    warmup_s: float = 0.0
    cooldown_s: float = 0.0


NO_TRIM: Final = Trim()


@dataclass(frozen=True)
class PolicyResult:
    """The figures of one policy, for every seed."""

    policy: str
    trials: Sequence[Mapping[str, Any]]
    """The figures of each trial that succeeded, in the order of the seeds."""
    digest: Digest | None
    """The data for pictures of the first seed, if requested."""
    error: str
    """Why a trial failed; empty: all succeeded."""

    @property
    def outcome(self) -> Outcome:
        return summarise(self.policy, () if self.error else self.trials, self.error)


@dataclass(frozen=True)
class Comparison:
    """The results of all policies on one workload."""

    workload: LoadedWorkload
    """The workload as drawn by the first seed."""
    seeds: Sequence[int]
    measured: int
    """Number of jobs that count in job figures."""
    results: Sequence[PolicyResult]
    """One for each policy, in the order given."""
    bounds: Mapping[str, float] | None
    """Lower bounds for every policy. None: some jobs never ended, so the bounds do not hold."""

    @property
    def outcomes(self) -> list[Outcome]:
        return [result.outcome for result in self.results]


def no_progress(_labels: Sequence[str], _totals: Sequence[int]) -> AbstractContextManager[Progress]:
    """Return an observer that shows nothing."""
    return nullcontext(SilentProgress())


def compare_policies(
    workload: Workload, policies: Sequence[str], *, seeds: int = 1, trim: Trim = NO_TRIM, processes: int | None = None,
    with_digests: bool = False, warn: Warn = ignore, open_progress: OpenProgress = no_progress,
) -> Comparison:  # fmt: skip
    """Simulate every policy with `seeds` seeds, starting at the workload's seed, and return all figures.

    A policy that raises, or whose process dies, gets an error instead of figures; the others continue. `processes`:
    how many trials run at a time; None: one per CPU."""
    all_seeds = range(workload.seed, workload.seed + seeds)
    loaded: list[LoadedWorkload] = []
    trials: list[Trial] = []
    spans: list[Span] = []
    for seed in all_seeds:
        loaded.append(load_workload(replace(workload, seed=seed), policies, lenient=True, warn=warn))
        spans.append(_span(trim, loaded[-1]))
        packed = pack(loaded[-1].setting(policies[0]))
        with_digest = with_digests and seed == all_seeds[0]
        trials += [Trial(packed, policy, seed, spans[-1], with_digest) for policy in policies]
    jobs = loaded[0].jobs
    with open_progress([trial.policy for trial in trials], [len(jobs)] * len(trials)) as progress:
        answers = run_all(run, trials, processes or count_cpus(), progress)
    results = [_result(policy, trials, answers) for policy in policies]
    for result in results:
        _warn_of_lost_jobs(result, warn)
    if seeds > 1 and not any(_differs_by_seed(result) for result in results):
        warn("every seed gave the same figures: nothing in this workload is random; add uncertainty")
    measured = sum(spans[0].contains(each.submit_s) for each in jobs)
    return Comparison(loaded[0], all_seeds, measured, results, _bounds(loaded, spans, results))


def _result(policy: str, trials: Sequence[Trial], answers: Sequence[Any]) -> PolicyResult:
    own = [(trial, each) for trial, each in zip(trials, answers, strict=True) if trial.policy == policy]
    succeeded = [each for _, each in own if isinstance(each, TrialResult)]
    failed = [(trial.seed, each.reason) for trial, each in own if isinstance(each, TaskFailure)]
    error = ""
    if failed:
        error = failed[0][1] if len(own) == 1 else f"with seed {failed[0][0]}: {failed[0][1]}"
    digest = next((each.digest for each in succeeded if each.digest is not None), None)
    return PolicyResult(policy, [each.values for each in succeeded], digest, error)


def _warn_of_lost_jobs(result: PolicyResult, warn: Warn) -> None:
    for key, what in (("unfinished", "never ended and are not in the figures"), ("failed", "failed for good")):
        lost = sum(values[key] for values in result.trials)
        if lost:
            warn(f"{result.policy}: {lost:,} jobs {what}")


def _differs_by_seed(result: PolicyResult) -> bool:
    return len({tuple(values[key] for key in FIGURES) for values in result.trials}) > 1 or bool(result.error)


def _span(trim: Trim, loaded: LoadedWorkload) -> Span:
    first, last = loaded.jobs[0].submit_s, loaded.jobs[-1].submit_s
    if not (trim.warmup_s or trim.cooldown_s):
        return Span()
    span = Span(first + trim.warmup_s, last - trim.cooldown_s)
    if not any(span.contains(each.submit_s) for each in loaded.jobs):
        trimmed = f"warmup {trim.warmup_s:g} s and cooldown {trim.cooldown_s:g} s"
        raise InputError(f"{trimmed} leave none of {last - first:g} s of arrivals", hint="trim less")
    return span


def _weave_rules(loaded: LoadedWorkload, policies: Sequence[str]) -> WeaveRules:
    """Return the rules of the weaves that the policies of the comparison make."""
    paces = [pace_of(loaded.setting(policy)) for policy in policies]
    free = any(isinstance(pace, Pace) and min(pace.factors.values()) <= 1.0 for pace in paces)
    tokens = any(isinstance(pace, Rates) for pace in paces)
    return WeaveRules(tokens=tokens, factors=not free and loaded.workload.contention != "none")


def _bounds(
    loaded: Sequence[LoadedWorkload], spans: Sequence[Span], results: Sequence[PolicyResult]
) -> dict[str, float] | None:
    """Return the mean of each bound over the seeds."""
    if any(values[key] for result in results for values in result.trials for key in ("failed", "unfinished")):
        return None
    rules = _weave_rules(loaded[0], [result.policy for result in results])
    by_seed = [
        asdict(compute_bounds(each.jobs, each.nodes, each.workload.model, span.contains, rules))
        for each, span in zip(loaded, spans, strict=True)
    ]
    means = {key: estimate([each[key] for each in by_seed]) for key in by_seed[0]}
    return {key: mean.mean for key, mean in means.items() if mean is not None}
