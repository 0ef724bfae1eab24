"""The solo seconds of work that jobs took until they were done, by number of GPUs, and what that says of jobs at work.

Work is counted in bins that double in width. For each bin, the *hazard* is the chance that a job which gets there ends
in it. Jobs that have not ended count as far as they got (Kaplan-Meier). With few jobs a hazard is drawn towards that of
all GPU counts, and that one towards a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from weft.model import Edited, Exited, Fact, Job, JobId, JobSnapshot, Progressed, Started, Submitted
from weft.scheduling.policy_state.event_gaps import EventGaps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Indices = NDArray[np.intp]

FIRST_BIN_S: Final = 1200.0
BINS: Final = 16
"""The last bin begins after eight months."""
PRIOR: Final = 0.25
"""The hazard before anything is known."""
PRIOR_JOBS: Final = 1.0
"""The number of jobs that the prior counts for."""
SHORT_PART: Final = 0.1
"""The part of the finished jobs that count as short."""
OCTAVES: Final = 32
MIN_SHORT_S: Final = 64.0
"""No job is taken to be shorter than this."""
READ: Final = frozenset({Submitted, Edited, JobSnapshot, Started, Progressed, Exited})
"""The facts that change what is known of jobs' work, and of the time between events."""
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
    octaves: dict[int, list[int]] = field(default_factory=dict)
    """By number of GPUs, the number of finished jobs by the power of two that their work reached."""
    _work: dict[JobId, _Work] = field(default_factory=dict)

    @property
    def gap_s(self) -> float:
        return self.gaps.gap_s

    def apply(self, fact: Fact) -> None:
        if type(fact) not in READ:
            return
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
        octaves = self.octaves.setdefault(work.gpus, [0] * OCTAVES)
        octaves[min(int(work.done_s).bit_length(), OCTAVES - 1)] += 1

    def short_s(self, gpus: int) -> float:
        """Return the work of a short job of this many GPUs, rounded down to a power of two. As long as none has
        finished, all jobs count."""
        counts = self.octaves.get(gpus) or [sum(each) for each in zip(*self.octaves.values(), strict=True)]
        short, seen = SHORT_PART * sum(counts), 0
        for octave, count in enumerate(counts):
            seen += count
            if count and seen >= short:
                return max(2.0 ** (octave - 1), MIN_SHORT_S)
        return MIN_SHORT_S


def _declared_s(job: Job) -> float | None:
    if job.iterations is not None and job.profile is not None:
        return job.iterations * job.profile.iteration_s
    return job.declared_s


def bin_of(work_s: float) -> int:
    """Return the bin of an amount of work."""
    return min(max(int(work_s / FIRST_BIN_S).bit_length(), 0), BINS - 1)


def least_lengths_s(learned: SoloService, counts: Sequence[int], which: Indices, worked_s: Numbers) -> Numbers:
    """Return, for each live job, the work that it has in total if it is a short one: a job that has done as much ends
    before its work doubles. `which` has the place of each job's GPU count in `counts`."""
    import numpy as np

    short_s = np.array([learned.short_s(count) for count in counts])[which]
    return np.asarray(np.maximum(short_s, np.ldexp(1.0, np.frexp(worked_s)[1])))


@cache
def _bins() -> tuple[Numbers, Numbers]:
    """Return the starts and the widths of the bins."""
    import numpy as np

    doubling = FIRST_BIN_S * 2.0 ** np.arange(BINS - 1)
    return np.concatenate(([0.0], doubling)), np.concatenate(([FIRST_BIN_S], doubling))


def expected_left_s(
    finished: dict[int, list[int]], counts: Sequence[int], which: Indices, worked_s: Numbers
) -> Numbers:
    """Return, for each live job, its inverse Gittins index: the least work per chance to end, over all spans ahead.
    `which` has the place of each job's GPU count in `counts`."""
    import numpy as np

    starts, widths = _bins()
    bins = np.minimum(np.frexp(np.floor(worked_s / FIRST_BIN_S))[1], BINS - 1)
    part = np.minimum((worked_s - starts[bins]) / widths[bins], 1.0)
    cells, size = which * BINS + bins, len(counts) * BINS
    live = np.bincount(cells, minlength=size).reshape(-1, BINS)
    parts: Numbers = np.bincount(cells, weights=part, minlength=size).reshape(-1, BINS).astype(np.float64)
    general = sum((np.array(each) for each in finished.values()), np.zeros(BINS))
    prior = _hazards(general, live.sum(axis=0), parts.sum(axis=0), np.full(BINS, PRIOR), PRIOR_JOBS)
    done = np.array([finished.get(count, [0] * BINS) for count in counts], dtype=float)
    return np.asarray(_inverse_gittins(_hazards(done, live, parts, prior, GENERAL_JOBS), widths).ravel()[cells])


def _hazards(finished: Numbers, live: NDArray[np.int_], parts: Numbers, prior: Numbers, strength: float) -> Numbers:
    """Return the chance to end in each bin (the last axis) for jobs that reach it, given the number of live jobs in
    each bin, and the sum of the parts of it that they have done."""
    import numpy as np

    later = live[..., ::-1].cumsum(axis=-1)[..., ::-1] - live
    reached = finished[..., ::-1].cumsum(axis=-1)[..., ::-1] + later + parts
    return np.asarray((finished + strength * prior) / (reached + strength))


def _inverse_gittins(hazards: Numbers, widths: Numbers) -> Numbers:
    """Return, for each row of hazards and each bin, the least expected work per chance to end within any number of bins
    from there."""
    import numpy as np

    ahead = np.triu(np.ones((BINS, BINS), dtype=bool))  # from each bin, the bins to come
    stays = np.cumprod(np.where(ahead, 1 - hazards[:, None, :], 1.0), axis=2)
    before = np.concatenate((np.ones((*stays.shape[:2], 1)), stays[:, :, :-1]), axis=2)
    spent = np.cumsum(np.where(ahead, before * widths * (1 - hazards[:, None, :] / 2), 0.0), axis=2)
    ratio: Numbers = np.where(ahead, spent / np.maximum(1 - stays, 1e-12), np.inf)
    return np.asarray(ratio.min(axis=2))
