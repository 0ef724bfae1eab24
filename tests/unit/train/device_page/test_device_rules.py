"""The rules of sharing: Dilu's bands, both rates, and the part of the GPU that a batch gets."""

from __future__ import annotations

import pytest

from weft.train.device_page import rules
from weft.train.device_page.rules import DILU_BANDS, DILU_LLM_BANDS, PRIO_BANDS, Bucket, Periods


def after(bands: rules.Bands, *periods: float, factor: float = 1.0) -> float:
    known = Periods(bands)
    for seconds in periods:
        factor = known.next_factor(factor, seconds)
    return factor


def test_a_batch_much_longer_than_usual_cuts_the_rate_by_as_much() -> None:
    assert after(PRIO_BANDS, 1.0, 1.0, 2.0) == pytest.approx(0.5)
    assert after(DILU_BANDS, 1.0, 1.6) == pytest.approx(1 / 1.6)


def test_a_batch_somewhat_longer_than_usual_changes_nothing() -> None:
    assert after(PRIO_BANDS, 1.0, 1.3, 1.5, factor=0.4) == 0.4


def test_every_fifth_calm_batch_raises_the_rate() -> None:
    assert after(DILU_BANDS, *[1.0] * 4, factor=0.5) == 0.5
    assert after(DILU_BANDS, *[1.0] * 5, factor=0.5) == pytest.approx(0.65)
    assert after(DILU_BANDS, *[1.0] * 10, factor=0.5) == pytest.approx(0.845)
    assert after(DILU_BANDS, *[1.0] * 100, factor=0.5) == 1.0


def test_dilu_takes_a_period_of_four_times_the_usual_as_no_evidence_and_prio_as_an_emergency() -> None:
    assert after(DILU_BANDS, 1.0, 4.0) == 1.0
    assert after(PRIO_BANDS, 1.0, 4.0) == 0.25


def test_the_floors() -> None:
    assert after(DILU_BANDS, *[1.0, 3.0] * 50) >= 0.01
    assert after(DILU_LLM_BANDS, *[1.0, 3.0] * 50) >= 0.001
    assert after(PRIO_BANDS, 1.0, 1000.0, factor=0.1) == 0.02


def test_the_bands_of_a_language_model_are_tighter() -> None:
    assert after(DILU_LLM_BANDS, 1.0, 1.4) == pytest.approx(1 / 1.4)
    assert after(DILU_BANDS, 1.0, 1.4) == 1.0


def test_prio_paces_only_while_a_batch_runs() -> None:
    assert rules.prio_rate(False, 0.1, 0.5) == 1.0
    assert rules.prio_rate(True, 0.1, 0.5) == pytest.approx(0.05)
    assert rules.prio_rate(True, 0.0, 0.5) == rules.MIN_RATE, "a replica that hangs does not stop training"


def test_dilu_paces_until_inference_was_idle_and_then_to_the_limits() -> None:
    assert rules.dilu_rate(0.5, 0.4, 0.3, 0.3, 0.9) == pytest.approx(0.12)
    assert rules.dilu_rate(0.61, 0.4, 0.3, 0.3, 0.9) == pytest.approx(0.9)
    assert rules.dilu_rate(0.61, 0.4, 0.2, 0.6, 1.2) == pytest.approx(0.4), "split by request"
    assert rules.dilu_rate(0.61, 0.4, 0.5, 0.5, 1.5) == 1.0


def test_a_batch_gets_its_limit_only_alone() -> None:
    assert rules.batch_share(0.3, 0.6, is_contended=False) == 0.6
    assert rules.batch_share(0.3, 0.6, is_contended=True) == 0.3


def test_training_saves_for_a_layer_before_it_begins() -> None:
    bucket = Bucket()
    assert bucket.wait_s(10.0, 10.0, 0.5, 0.002) == pytest.approx(0.002)
    bucket.end_wait(10.002, 0.5, 0.002)
    assert bucket.wait_s(10.002, 10.0, 0.5, 0.002) == pytest.approx(0.0), "it has saved enough"
    bucket.end_wait(10.002, 0.5, 0.002)
    assert bucket.wait_s(10.004, 10.0, 0.5, 0.002) == pytest.approx(0.002), "the layer is used up"


def test_the_next_contention_begins_without_savings_unless_it_follows_at_once() -> None:
    bucket = Bucket()
    bucket.wait_s(10.0, 10.0, 0.5, 0.002)
    bucket.end_wait(10.1, 0.5, 0.002)
    assert bucket.wait_s(10.104, 10.103, 0.5, 0.002) == 0.0, "3 ms later it is the same contention"
    bucket.end_wait(10.104, 0.5, 0.002)
    assert bucket.wait_s(11.0, 11.0, 0.5, 0.002) == pytest.approx(0.002)
