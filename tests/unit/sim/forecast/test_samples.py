"""Which samples run with later arrivals, and what becomes of the others."""

from __future__ import annotations

from math import inf

import pytest

from weft.sim.forecast.samples import PAIRED_JOBS, PROBES, Times, run_samples

NOW = 100.0


def run_late(number: int, *, arrive: bool) -> Times:
    """Run a sample of one job, which arrivals delay by 50 s, or by 70 s in samples with an odd number."""
    delay_s = (70.0 if number % 2 else 50.0) if arrive else 0.0
    return [NOW + number + delay_s, inf]


@pytest.mark.parametrize("matter", [True, False])
def test_all_samples_of_a_short_queue_run_with_arrivals_if_they_matter(matter: bool) -> None:
    def run(number: int, *, arrive: bool) -> Times:
        return [number, float(arrive and (matter or number >= PROBES))]

    assert [list(each) for each in run_samples(run, 6, 1, 0.0, may_arrive=True)] == [[at, matter] for at in range(6)]
    assert [list(each) for each in run_samples(run, 1, 1, 0.0, may_arrive=False)] == [[0.0, 0.0]]


def test_the_samples_of_a_long_queue_take_over_the_delays_of_the_first() -> None:
    def run(number: int, *, arrive: bool) -> Times:
        assert not arrive or number < 2
        return run_late(number, arrive=arrive)

    found = run_samples(run, 6, PAIRED_JOBS // 2, NOW, may_arrive=True)
    assert [start for start, _ in found] == [150.0, 171.0, 152.0, 173.0, 154.0, 175.0]
    assert {end for _, end in found} == {inf}


def test_a_job_that_arrivals_keep_from_starting_has_no_start_in_the_other_samples() -> None:
    def run(number: int, *, arrive: bool) -> Times:
        return [inf if arrive else 5.0 + number, 7.0]

    assert {start for start, _ in run_samples(run, 6, PAIRED_JOBS, 0.0, may_arrive=True)} == {inf}


def test_no_job_starts_in_the_past() -> None:
    def run(number: int, *, arrive: bool) -> Times:
        return [NOW if arrive or number >= PROBES else NOW + 90.0, inf]

    assert {start for start, _ in run_samples(run, 6, PAIRED_JOBS, NOW, may_arrive=True)} == {NOW}


def test_a_job_that_starts_at_once_is_not_delayed() -> None:
    def run(number: int, *, arrive: bool) -> Times:
        if number >= PROBES:
            return [NOW, NOW + 7.0]
        return [NOW + 50.0 * arrive + 1.0, NOW + 50.0 * arrive + 8.0]

    found = run_samples(run, 4, PAIRED_JOBS, NOW, may_arrive=True)
    assert [list(each) for each in found[PROBES:]] == [[NOW, NOW + 7.0]] * 2


@pytest.mark.parametrize(("end_s", "delayed_s"), [(8.0, 7.0), (38.0, 37.0)])
def test_a_job_that_starts_at_once_may_end_later_because_of_arrivals(end_s: float, delayed_s: float) -> None:
    """Arrivals delay its start by 50 s in the first sample, and its end by as much or by 30 s more."""

    def run(number: int, *, arrive: bool) -> Times:
        if number:
            return [NOW, NOW + 7.0]
        return [NOW + 51.0, NOW + 50.0 + end_s] if arrive else [NOW + 1.0, NOW + 8.0]

    found = run_samples(run, 4, PAIRED_JOBS, NOW, may_arrive=True)
    assert [list(each) for each in found[1:]] == [[NOW, NOW + delayed_s]] * 3
