"""Forecasts as the server answers them."""

from __future__ import annotations

from support.builders import Rig, node
from weft.model import Exited, Job
from weft.server.forecasts.keeper import ForecastTable
from weft.server.forecasts.views import forecast_view
from weft.views.answers.forecasts import ForecastView

NOW, HOUR_S = 1_000_000.0, 3600.0


def _forecast(deadline_at: float | None) -> ForecastView:
    """The forecast of a job that ends in one hour at P50 and in three hours at P90."""
    rig = Rig("fifo", [node(gpus=1)])
    rig.submit(Job("a", 1, deadline_at=deadline_at))
    ends = [NOW, NOW, NOW + HOUR_S, NOW + 3 * HOUR_S, "similar", 4]
    return forecast_view(rig.state.jobs["a"], rig.state, ForecastTable(NOW, 30, 0, {"a": ends}))


def test_a_forecast_says_whether_the_job_makes_its_deadline() -> None:
    assert _forecast(None).note == ""
    assert _forecast(NOW + 4 * HOUR_S).note == ""
    assert _forecast(NOW + 2 * HOUR_S).note.startswith("it may miss its deadline")
    assert _forecast(NOW + HOUR_S / 2).note.startswith("it cannot make its deadline")
    assert "has passed" in _forecast(NOW - 1).note


def test_a_job_without_a_p90_may_miss_its_deadline() -> None:
    rig = Rig("fifo", [node(gpus=1)])
    rig.submit(Job("a", 1, deadline_at=NOW + 2 * HOUR_S))
    ends = [NOW, None, NOW + HOUR_S, None, "similar", 4]
    found = forecast_view(rig.state.jobs["a"], rig.state, ForecastTable(NOW, 30, 0, {"a": ends}))
    assert found.note.endswith("its end is unknown at P90")


def test_a_job_that_has_started_since_has_no_start() -> None:
    rig = Rig("fifo", [node(gpus=1)])
    rig.submit(Job("a", 1))
    assert rig.state.jobs["a"].active
    times = [NOW, NOW, NOW + HOUR_S, NOW + HOUR_S, "similar", 4]
    found = forecast_view(rig.state.jobs["a"], rig.state, ForecastTable(NOW, 30, 0, {"a": times}))
    assert (found.start_p50, found.start_p90) == (None, None)
    assert found.end_p50 is not None


def test_a_forecast_of_the_last_run_says_nothing_about_the_next() -> None:
    rig = Rig("fifo", [node(gpus=1)])
    rig.submit(Job("a", 1))
    rig.tell(Exited(NOW, "a", 1, "requeued", delay_s=60.0))
    assert rig.state.jobs["a"].waiting_since == NOW
    while_it_ran = [None, None, NOW + HOUR_S, NOW + HOUR_S, "similar", 4]
    found = forecast_view(rig.state.jobs["a"], rig.state, ForecastTable(NOW - 1, 30, 0, {"a": while_it_ran}))
    assert (found.end_p50, found.note) == (None, "the forecast is not ready yet; ask again")
