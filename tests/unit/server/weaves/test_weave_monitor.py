"""The counters of woven runs: pace, stage times, and runs that exceed their turns."""

from __future__ import annotations

import pytest

from support.builders import Rig, node, profile
from weft.access.wire.messages import StageCounters
from weft.model import (
    Event,
    Exited,
    Fact,
    Job,
    NodeJoined,
    Profiled,
    Progressed,
    Rewoven,
    Start,
    Started,
    Submitted,
    Suspended,
    Unwoven,
)
from weft.model.profiles import key_of
from weft.scheduling.core.reasons import why_not_woven
from weft.scheduling.core.state.job import JobState, weave_id
from weft.scheduling.weaving.pace import Pace
from weft.server.weaves.monitor import HANG_WINDOW_S, PROFILE_PERIOD_S, SILENT_S, WeaveMonitor
from weft.views.from_state.weaves import weave_of_job, weave_views

SOLO = profile(0.05, 0.1, 0.05)
"""0.2 s per iteration."""


class Weave:
    """Two jobs that run woven on one GPU; the first one reports its counters."""

    def __init__(self, solo: object = SOLO, start_s: float = 0.0) -> None:
        self.rig, self.monitor, self.now = Rig("fifo"), WeaveMonitor(), 100.0
        shape = profile(0.05, 0.1, 0.05, start=start_s) if solo else None
        self.rig.now = 0.0
        state = self.rig.state
        facts: list[Fact] = [
            NodeJoined(0.0, node(gpus=1, model="A100")),
            *(Submitted(0.0, Job(name, profile=shape, params=(("model", "bert"),))) for name in "ab"),
            *(Start(1.0, name, 1, (("n0", (0,)),), weave=("a", "b")) for name in "ab"),
            *(Started(2.0, name, 1) for name in "ab"),
        ]
        for fact in facts:
            state.apply(fact)

    @property
    def job(self) -> JobState:
        return self.rig.job("a")

    def report(self, after_s: float, grants: int, passed_over: int = 0, served_s: float | None = None) -> list[Event]:
        self.now += after_s
        gpu = StageCounters(
            stage="gpu", grants=grants, served_s=0.1 * grants if served_s is None else served_s,
            waited_s=0.05 * grants, passed_over=passed_over,
        )  # fmt: skip
        return self.monitor.record(self.rig.state, self.job, weave_id(self.job), [gpu], self.now)


@pytest.fixture
def weave() -> Weave:
    return Weave()


def test_the_pace_is_the_iterations_per_second_against_those_alone(weave: Weave) -> None:
    weave.report(0, 0)
    assert weave.report(20, 50) == [Progressed(120.0, "a", 1, None, 0.5)]
    known = weave.monitor.of(weave.job)
    assert known is not None
    assert known.rate == pytest.approx(0.5)


def test_the_pace_is_recorded_when_it_has_changed_and_not_with_every_report(weave: Weave) -> None:
    weave.report(0, 0)
    weave.report(20, 50)
    assert weave.report(20, 102) == []
    (changed,) = weave.report(40, 302)
    assert isinstance(changed, Progressed)
    assert changed.rate == pytest.approx(1.0)


def test_a_run_counts_at_its_expected_rate_until_it_is_measured() -> None:
    """The slots of a pair of these take 0.1, 0.1 and 0.05 s, and an empty one nothing: 0.25 s, and 0.4 s with 1.6."""
    weave = Weave()
    weave.monitor = WeaveMonitor(lambda: Pace(factors={2: 1.6}))
    state = weave.rig.state
    assert weave.monitor.expected_rate(state, weave.job) == pytest.approx(0.5), "0.2 s alone"
    assert weave.report(0, 0) == [], "it started with this rate"
    for weave_then in ((), ("a", "b")):
        for name in "ab":
            state.apply(Rewoven(110.0, name, 1, weave_then))
    (expected,) = weave.report(15, 0)
    assert isinstance(expected, Progressed)
    assert (expected.at, expected.remaining_s) == (115.0, None)
    assert expected.rate == pytest.approx(0.5)
    state.apply(expected)
    assert weave.report(1, 5) == []
    (measured,) = weave.report(19, 75)
    assert isinstance(measured, Progressed)
    assert measured.rate == pytest.approx(0.75)
    state.apply(measured)
    state.apply(Unwoven(140.0, "a", 1, "hangs"))
    assert weave.report(10, 75) == [Progressed(145.0, "a", 1, None, 1.0)]
    assert weave.report(10, 75) == []


def test_without_a_profile_or_a_pace_a_woven_run_counts_as_alone() -> None:
    assert Weave().monitor.expected_rate(Weave().rig.state, Weave().job) == 1.0
    bare = Weave(solo=None)
    assert WeaveMonitor(Pace).expected_rate(bare.rig.state, bare.job) == 1.0


def test_a_run_that_takes_no_token_for_a_minute_is_unwoven(weave: Weave) -> None:
    weave.report(0, 7)
    assert weave.report(SILENT_S - 1, 7) == []
    assert weave.report(2, 7) == [Unwoven(161.0, "a", 1, "silent")]


def test_a_run_that_takes_tokens_now_and_then_stays_woven(weave: Weave) -> None:
    weave.report(0, 1)
    for grants in range(2, 8):
        assert not any(isinstance(event, Unwoven) for event in weave.report(SILENT_S - 1, grants))


def test_a_slow_start_is_not_silence() -> None:
    weave = Weave(start_s=40.0)
    weave.report(0, 0)
    assert weave.report(SILENT_S + 79, 0) == []
    assert weave.report(2, 0) == [Unwoven(241.0, "a", 1, "silent")]


def test_a_suspended_run_is_not_silent(weave: Weave) -> None:
    weave.report(0, 5)
    weave.rig.state.apply(Suspended(101.0, "a", 1))
    assert weave.report(2 * SILENT_S, 5) == []
    weave.job.suspended = False
    assert weave.report(SILENT_S - 1, 5) == []


def test_a_run_that_was_passed_over_three_times_in_a_minute_is_unwoven(weave: Weave) -> None:
    weave.report(0, 10)
    assert weave.report(2, 20, passed_over=2) == []
    assert weave.report(2, 30, passed_over=3) == [Unwoven(104.0, "a", 1, "hangs")]


def test_a_run_that_is_passed_over_seldom_stays_woven(weave: Weave) -> None:
    for over in range(8):
        events = weave.report(HANG_WINDOW_S / 2, 10 * (over + 1), passed_over=over)
        assert not any(isinstance(event, Unwoven) for event in events)


def test_stage_times_that_differ_from_the_profile_are_recorded_once(weave: Weave) -> None:
    weave.report(0, 0)
    events = weave.report(PROFILE_PERIOD_S, 100, served_s=20.0)
    (fact,) = [event for event in events if isinstance(event, Profiled)]
    assert (fact.key, fact.gpus, fact.gpu_model, fact.source) == (key_of(weave.job.job), 1, "A100", "woven")
    assert (fact.profile.data_s, fact.profile.gpu_s, fact.profile.network_s) == pytest.approx((0.05, 0.2, 0.05))
    assert fact.profile.iteration_s == pytest.approx(0.3)
    again = weave.report(PROFILE_PERIOD_S, 200, served_s=40.0)
    assert not any(isinstance(event, Profiled) for event in again)


def test_stage_times_as_in_the_profile_are_not_recorded(weave: Weave) -> None:
    weave.report(0, 0)
    events = weave.report(PROFILE_PERIOD_S, 100, served_s=10.5)
    assert not any(isinstance(event, Profiled) for event in events)


def test_reports_about_another_weave_or_a_run_that_does_not_run_are_dropped(weave: Weave) -> None:
    gpu = StageCounters(stage="gpu", grants=1)
    assert weave.monitor.record(weave.rig.state, weave.job, "a-7", [gpu], 100.0) == []
    assert weave.monitor.of(weave.job) is None
    weave.rig.state.apply(Unwoven(101.0, "a", 1, "hangs"))
    assert weave.report(1, 5) == []
    assert weave.monitor.of(weave.job) is None


def test_counters_that_an_earlier_report_overtook_are_ignored(weave: Weave) -> None:
    weave.report(0, 10)
    weave.report(1, 30)
    weave.report(1, 20)
    known = weave.monitor.of(weave.job)
    assert known is not None
    assert known.stages["gpu"].grants == 30
    total = weave.monitor.totals()["gpu"]
    assert (total.served_s, total.waited_s, total.grants) == pytest.approx((3.0, 1.5, 30))


def test_weaves_are_shown_with_their_members_in_order(weave: Weave) -> None:
    weave.report(0, 0)
    weave.report(20, 50)
    (shown,) = weave_views(weave.rig.state, weave.monitor, "fair", lambda slots: slots)
    assert (shown.weave, shown.gpus, shown.order) == ("a-1000000", "n0[0]", "fair")
    assert [(member.job, member.place, member.rate) for member in shown.members] == [("a", 0, 0.5), ("b", 1, None)]
    (stage,) = shown.members[0].stages
    assert (stage.stage, stage.time_s, stage.wait_s, stage.grants) == ("gpu", 0.1, 0.05, 50)
    assert list(shown.members[1].stages) == []


def test_a_run_whose_partners_have_ended_is_no_weave(weave: Weave) -> None:
    weave.rig.state.apply(Exited(5.0, "b", 1, "done"))
    assert weave_id(weave.job), "it keeps its weave until the next plan"
    assert weave_views(weave.rig.state, weave.monitor, "fair", lambda slots: slots) == []


def test_the_weave_of_a_job_names_its_partners(weave: Weave) -> None:
    shown = weave_of_job(weave.rig.job("b"), weave.rig.state, weave.monitor)
    assert shown is not None
    assert list(shown.partners) == ["a"]


@pytest.mark.parametrize(("why", "words"), [("silent", "takes no turns"), ("hangs", "held a stage for too long")])
def test_a_job_that_is_woven_no_more_says_why(weave: Weave, why: str, words: str) -> None:
    assert why_not_woven(weave.job, weave.rig.state) == ""
    weave.rig.state.apply(Unwoven(101.0, "a", 1, why))
    assert words in why_not_woven(weave.job, weave.rig.state)
    assert weave_of_job(weave.job, weave.rig.state, weave.monitor) is None


def test_a_job_without_a_profile_says_that_it_is_not_woven() -> None:
    rig = Rig("fifo")
    for fact in (NodeJoined(0.0, node(gpus=1)), Submitted(0.0, Job("a")), Start(1.0, "a", 1, (("n0", (0,)),))):
        rig.state.apply(fact)
    assert "it has no profile" in why_not_woven(rig.job("a"), rig.state)
