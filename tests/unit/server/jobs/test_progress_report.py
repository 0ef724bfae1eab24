from __future__ import annotations

import pytest

from weft.server.jobs.progress_report import MAX_METRICS, Report
from weft.views.answers.jobs import CheckpointView


def told(*bodies: dict[str, object], every_s: float = 10.0) -> Report:
    report = Report(100.0)
    for number, body in enumerate(bodies):
        report.update(body, 100.0 + number * every_s)
    return report


def test_the_rest_follows_from_the_pace() -> None:
    report = told({"step": 0, "total": 100}, {"step": 20})
    assert report.remaining_s(110.0) == 40.0
    assert report.remaining_s(115.0) == 35.0
    assert report.remaining_s(1000.0) == 0.0


def test_a_run_that_resumed_is_measured_from_where_it_began() -> None:
    assert told({"step": 50, "total": 100}, {"step": 60}).remaining_s(110.0) == 40.0


def test_a_count_that_begins_anew_is_measured_anew() -> None:
    report = told({"step": 90, "total": 100}, {"step": 0}, {"step": 10})
    assert report.remaining_s(120.0) == 90.0


@pytest.mark.parametrize("bodies", [[{"step": 5}], [{"step": 5, "total": 10}], [{"step": 5}, {"step": 6}]])
def test_without_a_pace_or_a_total_nobody_knows(bodies: list[dict[str, object]]) -> None:
    assert told(*bodies).remaining_s(200.0) is None


def test_what_a_message_does_not_say_stays() -> None:
    checkpoint = {"path": "/a", "step": 3, "time": 1_700_000_000.0}
    report = told(
        {"step": 3, "total": 9, "metrics": {"loss": 0.5}, "checkpoint": checkpoint}, {"step": 4, "metrics": None}
    )
    assert (report.step, report.total, report.metrics) == (4, 9, {"loss": 0.5})
    assert report.checkpoint == CheckpointView("/a", 3, "2023-11-14T22:13:20.000Z")


def test_a_checkpoint_may_come_before_any_step() -> None:
    report = told({"step": None, "checkpoint": {"path": "/a", "step": None, "time": 0}})
    assert report.checkpoint is not None
    assert (report.step, report.total) == (0, None)


def test_metrics_are_finite_and_few() -> None:
    report = told({"metrics": {"a": float("nan"), "b": float("inf"), "c": None, "d": "1.5"}})
    assert report.metrics == {"a": None, "b": None, "c": None, "d": 1.5}
    for number in range(1000):
        report.update({"metrics": {f"m{number}": 1.0}}, 0.0)
    assert len(report.metrics) == MAX_METRICS
    assert "m999" in report.metrics


@pytest.mark.parametrize(
    "body",
    [{"step": -1}, {"step": 1e300}, {"step": float("inf")}, {"step": "x"}, {"step": []}, {"total": "x"},
     {"metrics": [1]}, {"metrics": {"a": []}}, {"checkpoint": {}}, {"checkpoint": {"path": "/a", "time": 1e300}}],
)  # fmt: skip
def test_nonsense_is_an_error_that_the_caller_expects(body: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError, AttributeError, KeyError, OSError)):
        told(body)


def test_stage_times_alone_are_no_progress() -> None:
    report = Report(0.0)
    report.update({"step": None, "total": None, "metrics": {}, "checkpoint": None, "stages": {"steps": 5}}, 1.0)
    assert not report.has_progress
    report.update({"step": 1}, 2.0)
    assert report.has_progress
