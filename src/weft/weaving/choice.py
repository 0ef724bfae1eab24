"""The choice of the groups that get GPUs, given the market of a plan: what is worth most, fits, and runs already."""

from __future__ import annotations

from collections.abc import Sequence

from weft.core.ports import JobView, View
from weft.core.resources.shapes import Shape
from weft.model import Seconds, Slots
from weft.weaving.candidates import joint_shape
from weft.weaving.merging import Merger, total_worth
from weft.weaving.selection import Selection, Weights
from weft.weaving.valuation import Market


def choose_groups(
    view: View, market: Market, running: Sequence[JobView], concentration: float, keep: float, gap_s: Seconds
) -> list[tuple[int, ...]]:
    """Return the groups that get GPUs, by the numbers of their jobs, those with the most GPUs first.

    `running`: the jobs that hold GPUs; `keep`: the bonus of a group that runs, where only runs that move restart;
    `gap_s`: the time between two events."""
    start_rate = 0.0
    if view.restarts_all:  # each event costs all members of a group their start-up times
        keep, start_rate = 0.0, 1.0 / max(gap_s, 1e-9)
    buckets = market.buckets(Weights(view.gpus, concentration, start_rate))
    jobs, classes, class_of = market.live.jobs, market.live.classes, market.class_of
    fit, trial = _Fit(view, jobs), view.trial()
    selection = Selection(
        list(buckets.values()), lambda job: buckets[jobs[job].shape], lambda job: classes[class_of.item(job)].kind,
        keep, fit,
    )  # fmt: skip
    free = trial.idle_gpus
    selection.run(_running(market, running), free)
    _merge_instead(selection, free)
    return selection.place(fit.shape, trial)


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


def _running(market: Market, active: Sequence[JobView]) -> list[tuple[int, ...]]:
    """Return the groups that run now, by number: the members of each weave that have not ended."""
    found: dict[tuple[Slots, tuple[str, ...]], list[int]] = {}
    for number, job in zip(market.live.rows([job.seq for job in active]).tolist(), active, strict=True):
        if job.slots:
            found.setdefault((job.slots, job.weave), []).append(number)
    return [tuple(each) for each in found.values()]


class _Fit:
    """Tests whether the members of a weave fit together on empty GPUs: their memory, CPUs and RAM add up."""

    def __init__(self, view: View, jobs: Sequence[JobView]) -> None:
        self._view, self._jobs = view, jobs
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
        found = self._shapes.get(group)
        if found is None:
            found = self._shapes[group] = joint_shape(self._view, [self._jobs[number] for number in group])
        return found
