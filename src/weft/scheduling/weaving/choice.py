"""The choice of the groups that get GPUs, given the market of a plan: what is worth most, fits, and runs already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from weft.model import Seconds, Slots
from weft.scheduling.core.ports import Trial, View
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.weaving.candidates import together
from weft.scheduling.weaving.live_jobs import LiveJobs
from weft.scheduling.weaving.merging import Merger, total_worth
from weft.scheduling.weaving.selection import Bucket, Selection, Weights
from weft.scheduling.weaving.valuation import Market

MAX_PASSES: Final = 6
"""The most plans that are made because groups of the last one did not fit the nodes side by side."""


def all_alone(view: View, live: LiveJobs) -> list[tuple[int, ...]] | None:
    """Return every job by itself if all of them fit the cluster side by side; None if they do not."""
    import numpy as np

    trial = view.trial()
    held = np.array([each.held for each in live.classes])[live.class_of]
    if held.sum() > trial.idle_gpus:
        return None
    largest_first = np.argsort(-held, kind="stable").tolist()
    fit = all(trial.fits(live.jobs[number].shape) for number in largest_first)
    return [(number,) for number in largest_first] if fit else None


def choose_groups(
    view: View, market: Market, concentration: float, keep: float, gap_s: Seconds
) -> list[tuple[int, ...]]:
    """Return the groups that get GPUs, by the numbers of their jobs, those with the most GPUs first.

    A choice counts GPUs, and not where they are. If some of its groups do not fit the nodes, the next one has no more
    groups of these shapes than fitted. `keep`: the bonus of a group that runs, where only runs that move restart;
    `gap_s`: the time between two events."""
    start_rate = 0.0
    if view.restarts_all:  # each event costs all members of a group their start-up times
        keep, start_rate = 0.0, 1.0 / max(gap_s, 1e-9)
    weights = Weights(view.gpus, concentration, start_rate)
    fit, groups = _Fit(view, market.live), _running(market.live)
    limits: dict[Shape, int] = {}
    for _ in range(MAX_PASSES):
        selection, trial = _select(market, weights, limits, keep, fit), view.trial()
        free = trial.idle_gpus
        selection.run(groups, free)
        if not limits:
            _merge_instead(selection, free)
        placed, failed = selection.place(fit.shape, trial)
        if not failed or not trial.idle_gpus:
            break
        fitted = Counter(choice.bucket.shape for choice in placed)
        limits |= {shape: fitted[shape] for shape in {choice.bucket.shape for choice in failed}}
    found = [choice.jobs for choice in placed]
    return found + _fill_up(found, selection.buckets, fit, trial) if failed or limits else found


def _select(market: Market, weights: Weights, limits: Mapping[Shape, int], keep: float, fit: _Fit) -> Selection:
    """Return a selection among all jobs, with none chosen yet."""
    buckets = market.buckets(weights, limits)
    jobs = market.live.jobs
    return Selection(list(buckets.values()), lambda job: buckets[jobs[job].shape], market.kinds().item, keep, fit)


def _fill_up(
    placed: Sequence[tuple[int, ...]], buckets: Iterable[Bucket], fit: _Fit, trial: Trial
) -> list[tuple[int, ...]]:
    """Return jobs that fit what the placed groups leave of the nodes, alone."""
    taken = {job for group in placed for job in group}
    found: list[tuple[int, ...]] = []
    for bucket in sorted(buckets, key=lambda bucket: -bucket.gpus):
        for job in bucket.heaviest_first():
            if job in taken:
                continue
            if not trial.idle_gpus or not trial.fits(fit.shape((job,))):
                break  # jobs of one bucket have one shape
            found.append((job,))
    return found


def _merge_instead(selection: Selection, free: float) -> None:
    """With a short queue, take the plan that merges as few jobs as needed, if it is worth more."""
    if not selection.takes_all:
        return
    singles = [(choice.bucket, job) for choice in selection.chosen for job in choice.jobs]
    merged = Merger(selection.kept_worth, selection.fits).merge(singles, free)
    if merged is None:
        return
    if total_worth(merged, selection.kept_worth) > total_worth(selection.chosen, selection.kept_worth):
        selection.chosen = merged
        selection.split(free - sum(choice.bucket.gpus for choice in merged))


def _running(live: LiveJobs) -> list[tuple[int, ...]]:
    """Return the groups that run now, by number: the members of each weave that have not ended."""
    found: dict[tuple[Slots, tuple[str, ...]], list[int]] = {}
    known: dict[tuple[int, int], list[int]] = {}
    """By identity: most members of a weave have the same objects, and to hash these takes longer."""
    for number, job in zip(live.active_rows.tolist(), live.active, strict=True):
        slots, weave = job.slots, job.weave
        key = id(slots), id(weave)
        if key in known:
            known[key].append(number)
        elif slots:
            known[key] = found.setdefault((slots, weave), [])
            known[key].append(number)
    return [tuple(each) for each in found.values()]


class _Fit:
    """Tests whether the members of a weave fit together on empty GPUs: their memory, CPUs and RAM add up."""

    def __init__(self, view: View, live: LiveJobs) -> None:
        self._view, self._jobs = view, live.jobs
        self._has_figures = live.has_figures
        self._known: dict[Shape, bool] = {}
        self._shapes: dict[tuple[int, ...], Shape] = {}

    def __call__(self, group: tuple[int, ...]) -> bool:
        shape = self.shape(group)
        if len(group) == 1 or shape.plain:
            return True
        if shape not in self._known:
            self._known[shape] = self._view.trial().fits(shape)
        return self._known[shape]

    def shape(self, group: tuple[int, ...]) -> Shape:
        first = self._jobs[group[0]].shape
        if first.plain and not self._has_figures:
            return first
        found = self._shapes.get(group)
        if found is None:
            found = self._shapes[group] = together(self._view, [self._jobs[number] for number in group])
        return found
