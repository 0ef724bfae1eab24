"""The solo seconds of work that jobs took until they were done, by number of GPUs, and what that says of jobs at work.

Work is counted in bins that double in width. For each bin, the *hazard* is the chance that a job which gets there ends
in it. Jobs that have not ended count as far as they got (Kaplan-Meier). With few jobs a hazard is drawn towards that of
all GPU counts, and that one towards a constant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from weft.model import Edited, Exited, Fact, Job, JobId, JobSnapshot, Progressed, Started, Submitted
from weft.policy_state.event_gaps import EventGaps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

FIRST_BIN_S: Final = 1200.0
BINS: Final = 16
"""The last bin begins after eight months."""
PRIOR: Final = 0.25
"""The hazard before anything is known."""
PRIOR_JOBS: Final = 1.0
"""The number of jobs that the prior counts for."""
GENERAL_JOBS: Final = 5.0
"""The number of jobs that the hazard over all GPU counts counts for, in that of one GPU count."""


@dataclass(slots=True)
class _Work:
    gpus: int
    left_s: float | None
    """The work left according to the last report; None: unknown."""
    done_s: float = 0.0
    rate: float = 0.0
    since: float = 0.0

    def report(self, at: float, left_s: float | None) -> None:
        """Advance to a report, as `JobState.report` does."""
        step_s = self.rate * (at - self.since)
        expected_s = None if self.left_s is None else max(self.left_s - step_s, 0.0)
        self.done_s += step_s
        if left_s is not None and expected_s is not None:
            self.done_s = max(self.done_s + expected_s - left_s, 0.0)
        self.left_s, self.since = expected_s if left_s is None else left_s, at


@dataclass
class SoloService:
    """The memory of a policy that learns how much work jobs need."""

    gaps: EventGaps = field(default_factory=EventGaps)
    finished: dict[int, list[int]] = field(default_factory=dict)
    """By number of GPUs, the number of finished jobs whose work ended in each bin."""
    _work: dict[JobId, _Work] = field(default_factory=dict)

    @property
    def gap_s(self) -> float:
        return self.gaps.gap_s

    def apply(self, fact: Fact) -> None:
        self.gaps.apply(fact)
        if isinstance(fact, Submitted | Edited):
            self._work[fact.job.id] = _Work(fact.job.gpus, _declared_s(fact.job))
        elif isinstance(fact, JobSnapshot):
            work = _Work(fact.job.gpus, fact.remaining_s, fact.worked_s, fact.rate, fact.rate_since)
            if fact.status == "done":
                self._learn(work)
            elif fact.ended_at is None:
                self._work[fact.job.id] = work
        elif isinstance(fact, Started | Progressed | Exited):
            self._follow(fact)

    def _follow(self, fact: Started | Progressed | Exited) -> None:
        work = self._work.get(fact.job)
        if work is None:
            return
        if isinstance(fact, Started):
            work.rate, work.since = fact.rate, fact.at
            return
        work.report(fact.at, fact.remaining_s)
        work.rate = fact.rate if isinstance(fact, Progressed) else 0.0
        if isinstance(fact, Exited) and fact.how == "done":
            self._learn(self._work.pop(fact.job))

    def _learn(self, work: _Work) -> None:
        counts = self.finished.setdefault(work.gpus, [0] * BINS)
        counts[bin_of(work.done_s)] += 1


def _declared_s(job: Job) -> float | None:
    if job.iterations is not None and job.profile is not None:
        return job.iterations * job.profile.iteration_s
    return job.declared_s


def bin_of(work_s: float) -> int:
    """Return the bin of an amount of work."""
    return min(max(int(work_s / FIRST_BIN_S).bit_length(), 0), BINS - 1)


def expected_left_s(finished: dict[int, list[int]], gpus: Numbers, worked_s: Numbers) -> Numbers:
    """Return, for each live job, its inverse Gittins index: the least work per chance to end, over all spans ahead."""
    import numpy as np

    bins = np.minimum(np.frexp(np.floor(worked_s / FIRST_BIN_S))[1], BINS - 1)
    starts = np.concatenate(([0.0], FIRST_BIN_S * 2.0 ** np.arange(BINS - 1)))
    widths = np.concatenate(([FIRST_BIN_S], FIRST_BIN_S * 2.0 ** np.arange(BINS - 1)))
    part = np.minimum((worked_s - starts[bins]) / widths[bins], 1.0)
    general = sum((np.array(each) for each in finished.values()), np.zeros(BINS))
    prior = _hazards(general, bins, part, np.full(BINS, PRIOR), PRIOR_JOBS)
    left_s = np.empty(len(gpus))
    for count in np.unique(gpus).tolist():
        own = gpus == count
        done = np.array(finished.get(int(count), [0] * BINS), dtype=float)
        left_s[own] = _inverse_gittins(_hazards(done, bins[own], part[own], prior, GENERAL_JOBS), widths)[bins[own]]
    return left_s


def _hazards(finished: Numbers, bins: NDArray[np.int_], part: Numbers, prior: Numbers, strength: float) -> Numbers:
    """Return the chance to end in each bin for jobs that reach it, given the live jobs' bins and their parts done."""
    import numpy as np

    live = np.bincount(bins, minlength=BINS)
    reached = finished[::-1].cumsum()[::-1] + live[::-1].cumsum()[::-1] - live
    reached = reached + np.bincount(bins, weights=part, minlength=BINS)
    return np.asarray((finished + strength * prior) / (reached + strength))


def _inverse_gittins(hazards: Numbers, widths: Numbers) -> Numbers:
    """Return, for each bin, the least expected work per chance to end within any number of bins from there."""
    import numpy as np

    found = np.empty(BINS)
    for first in range(BINS):
        stays = np.concatenate(([1.0], np.cumprod(1 - hazards[first:])))
        spent = np.cumsum(stays[:-1] * widths[first:] * (1 - hazards[first:] / 2))
        found[first] = (spent / np.maximum(1 - stays[1:], 1e-12)).min()
    return found
