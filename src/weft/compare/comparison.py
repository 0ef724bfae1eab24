"""Policies against each other on the same jobs: each, with each seed, in a process of its own."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.cli.progress_bars import Bars
from weft.cli.render import say
from weft.compare import workload
from weft.compare.process_pool import Failed, run_all
from weft.compare.trial import Result, Span, Trial, pack, run
from weft.errors import InputError
from weft.report.stats import FIGURES, Outcome, estimate, outcome

if TYPE_CHECKING:
    from weft.report.digest import Digest
    from weft.sim.bounds import Bounds


@dataclass(frozen=True)
class Entry:
    """A policy, and how it did with each seed."""

    policy: str
    runs: Sequence[Mapping[str, Any]]
    drawn: Digest | None
    failed: str
    """Why there is nothing to show; empty: there is."""

    @property
    def outcome(self) -> Outcome:
        return outcome(self.policy, () if self.failed else self.runs, self.failed)


@dataclass(frozen=True)
class Contest:
    work: workload.Workload
    """As drawn by the first seed."""
    seeds: Sequence[int]
    measured: int
    """How many jobs count."""
    entries: Sequence[Entry]
    bounds: Mapping[str, float] | None
    """None: they do not hold, for some jobs never got done."""

    @property
    def outcomes(self) -> list[Outcome]:
        return [entry.outcome for entry in self.entries]


def hold(args: argparse.Namespace, policies: Sequence[str], *, draw: bool) -> Contest:
    seeds = range(args.seed, args.seed + args.seeds)
    works: list[workload.Workload] = []
    trials: list[Trial] = []
    spans: list[Span] = []
    for seed in seeds:
        given = argparse.Namespace(**{**vars(args), "seed": seed})
        works.append(workload.load(given, policies, forgiving=True))
        spans.append(_span(args, works[-1]))
        packed = pack(workload.setting(given, works[-1], policies[0]))
        trials += [Trial(packed, policy, seed, spans[-1], draw and seed == seeds[0]) for policy in policies]
    total = len(works[0].jobs)
    with Bars([trial.policy for trial in trials], [total] * len(trials)) as bars:
        results = run_all(run, trials, args.workers, bars.watch)
    entries = [_entry(policy, trials, results) for policy in policies]
    for entry in entries:
        _say_lost(entry)
    if len(seeds) > 1 and not any(_differ(entry) for entry in entries):
        say("every seed gave the same: nothing here is left to chance; see the flags of uncertainty")
    measured = sum(spans[0].holds(each.submit_s) for each in works[0].jobs)
    return Contest(works[0], seeds, measured, entries, _bounds(args, works, spans, entries))


def _entry(policy: str, trials: Sequence[Trial], results: Sequence[Any]) -> Entry:
    mine = [(trial, found) for trial, found in zip(trials, results, strict=True) if trial.policy == policy]
    good = [found for _, found in mine if isinstance(found, Result)]
    bad = [(trial.seed, found.what) for trial, found in mine if isinstance(found, Failed)]
    failed = ""
    if bad:
        failed = bad[0][1] if len(mine) == 1 else f"with seed {bad[0][0]}: {bad[0][1]}"
    drawn = next((found.drawn for found in good if found.drawn is not None), None)
    return Entry(policy, [found.values for found in good], drawn, failed)


def _say_lost(entry: Entry) -> None:
    for key, what in (("unfinished", "never ended and are not in the figures"), ("failed", "failed for good")):
        lost = sum(values[key] for values in entry.runs)
        if lost:
            say(f"{entry.policy}: {lost:,} jobs {what}")


def _differ(entry: Entry) -> bool:
    return len({tuple(values[key] for key in FIGURES) for values in entry.runs}) > 1 or bool(entry.failed)


def _span(args: argparse.Namespace, work: workload.Workload) -> Span:
    first, last = work.jobs[0].submit_s, work.jobs[-1].submit_s
    if not (args.trim_warmup or args.trim_cooldown):
        return Span()
    span = Span(first + args.trim_warmup, last - args.trim_cooldown)
    if not any(span.holds(each.submit_s) for each in work.jobs):
        what = f"nothing is left of {last - first:g} s of arrivals once {args.trim_warmup:g} s and "
        raise InputError(what + f"{args.trim_cooldown:g} s are trimmed", hint="trim less")
    return span


def _bounds(
    args: argparse.Namespace, works: Sequence[workload.Workload], spans: Sequence[Span], entries: Sequence[Entry]
) -> dict[str, float] | None:
    """Their means over the seeds."""
    from dataclasses import asdict

    from weft.sim.bounds import bounds

    if any(values[key] for entry in entries for values in entry.runs for key in ("failed", "unfinished")):
        return None
    found: list[Bounds] = [
        bounds(work.jobs, work.nodes, args.model, span.holds) for work, span in zip(works, spans, strict=True)
    ]
    every = [asdict(each) for each in found]
    means = {key: estimate([each[key] for each in every]) for key in every[0]}
    return {key: mean.mean for key, mean in means.items() if mean is not None}
