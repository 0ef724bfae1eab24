"""Plans of a short queue: all jobs alone, and the merges that lose least."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders import profile
from weft.scheduling.core.resources.shapes import plain_shape
from weft.scheduling.weaving.groups import GroupRates, build_table
from weft.scheduling.weaving.merging import MAX_JOBS, Merger, total_worth
from weft.scheduling.weaving.pace import Pace
from weft.scheduling.weaving.selection import NO_JOB, Bucket, Weights

DATA, GPU = profile(0.9, 0.05, 0.05), profile(0.05, 0.9, 0.05)
TABLE = build_table([DATA, GPU], GroupRates(Pace()))


class Jobs:
    """Jobs of one GPU each: the kind and the weight of each, in the order of their weights."""

    def __init__(self, kinds: list[int], weights: list[float]) -> None:
        self.kinds = kinds
        queues = [[n for n, kind in enumerate(kinds) if kind == each] for each in (0, 1)]
        self.bucket = Bucket(plain_shape(1), 1.0, TABLE, queues)
        self.bucket.prepare(np.array(weights), Weights(gpus=4, concentration=0.4))

    def worth(self, bucket: Bucket, jobs: tuple[int, ...]) -> float:
        found = bucket.density_of(jobs, tuple(self.kinds[job] for job in jobs))
        return NO_JOB if found is None else found

    def merge(self, free: float) -> list[tuple[int, ...]] | None:
        found = Merger(self.worth, lambda _: True).merge([(self.bucket, n) for n in range(len(self.kinds))], free)
        return None if found is None else sorted(tuple(sorted(choice.jobs)) for choice in found)


def test_the_lightest_pair_that_fits_together_is_woven() -> None:
    """Three jobs on two GPUs: a data job and a GPU job suit each other, and the heaviest data job runs alone."""
    assert Jobs([0, 0, 1], [9.0, 5.0, 5.0]).merge(2) == [(0,), (1, 2)]


def test_no_plan_where_all_fit_alone_or_too_many_wait() -> None:
    assert Jobs([0, 1], [2.0, 1.0]).merge(2) is None
    assert Jobs([0] * 9, [1.0] * 9).merge(2) is None
    assert Jobs([0] * (MAX_JOBS + 1), [1.0] * (MAX_JOBS + 1)).merge(MAX_JOBS) is None


@given(st.lists(st.tuples(st.integers(0, 1), st.floats(0.1, 50.0)), min_size=2, max_size=10), st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_a_plan_has_each_job_once_and_fits(drawn: list[tuple[int, float]], free: int) -> None:
    drawn.sort(key=lambda each: -each[1])
    jobs = Jobs([kind for kind, _ in drawn], [weight for _, weight in drawn])
    found = Merger(jobs.worth, lambda _: True).merge([(jobs.bucket, n) for n in range(len(drawn))], free)
    if found is not None:
        assert sorted(job for choice in found for job in choice.jobs) == list(range(len(drawn)))
        assert len(found) <= free
        assert total_worth(found, jobs.worth) > NO_JOB / 2
