"""Autoscaling of live services: reports of routers in, wanted replicas out."""

from __future__ import annotations

from support.builders import Rig, grid
from weft.access.wire.messages import LoadReport, ServiceLoad
from weft.model import Deployed, Job, Ready, ScaleRule, Service, Share
from weft.server.services.autoscaling import ROUTER_TIMEOUT_S, Autoscaling


def rig(least: int = 0, most: int = 8, throughput: float = 10.0) -> Rig:
    made = Rig("fifo", grid(2, 4))
    rule = ScaleRule("deficit", least, most, 5.0, throughput)
    made.tell(Deployed(made.now, Service("a", Job("a", share=Share(0.2, 0.4)), rule, concurrency=4)))
    return made


def report(arrivals: int, answered: int = 0, queued: int = 0, in_flight: int = 0, waiting_s: float = 0.0) -> LoadReport:
    load = ServiceLoad(
        service="a", arrivals=arrivals, answered=answered, queued=queued, in_flight=in_flight, waiting_s=waiting_s
    )
    return LoadReport(router="r", services=[load])


def test_a_request_that_waits_without_replicas_is_urgent() -> None:
    made, scaling = rig(), Autoscaling()
    scaling.decide(made.state, 0.0)
    assert not scaling.receive("r", report(0), made.state, 0.1)
    (wish,) = scaling.receive("r", report(9, queued=9), made.state, 0.101)
    assert (wish.service, wish.replicas) == ("a", 1), "a burst within a moment says nothing about the rate"


def test_counters_are_differences_and_a_router_may_begin_again() -> None:
    made, scaling = rig(1), Autoscaling()
    scaling.decide(made.state, 0.0)
    for router, count in (("r", 100), ("s", 20)):  # what was counted before says nothing about now
        scaling.receive(router, report(count), made.state, 0.5)
    scaling.decide(made.state, 1.0)
    assert scaling.figures("a").arrivals == 0
    scaling.receive("r", report(110), made.state, 1.4)
    scaling.receive("s", report(40), made.state, 1.5)
    scaling.decide(made.state, 2.0)
    assert scaling.figures("a").arrivals == 30
    scaling.receive("r", report(7), made.state, 2.5)  # it begins again
    scaling.decide(made.state, 3.0)
    assert scaling.figures("a").arrivals == 7


def test_load_raises_the_replicas_within_bounds_and_silence_ends_them() -> None:
    made, scaling = rig(0, 5), Autoscaling()
    total = 0
    for second in range(10):
        total += 100
        scaling.receive("r", report(total, total), made.state, second + 0.5)
        (wish,) = scaling.decide(made.state, second + 1.0)
    assert wish.replicas == 5, "100/s needs more than ten replicas of 10/s; the service has at most five"
    assert dict(wish.inputs)["arrivals"] == 100
    for second in range(10, 60):
        (wish,) = scaling.decide(made.state, float(second))
    assert wish.replicas == 0


def test_a_version_that_still_starts_is_not_ended_for_lack_of_requests() -> None:
    made, scaling = rig(0), Autoscaling()
    made.tell(Deployed(made.now, made.state.services.by_name["a"].service, start=True))
    for second in range(100):
        (wish,) = scaling.decide(made.state, float(second))
    assert wish.replicas == 1
    made.settle()
    made.tell(Ready(made.now, "a.0", 1))
    assert [each.replicas for each in scaling.decide(made.state, 100.0)] == [0]


def test_an_unknown_service_in_a_report_is_ignored() -> None:
    made, scaling = rig(), Autoscaling()
    other = LoadReport(router="r", services=[ServiceLoad(service="b", arrivals=9, queued=9)])
    assert not scaling.receive("r", other, made.state, 0.0)


def test_a_change_of_the_rule_takes_another_autoscaler() -> None:
    made, scaling = rig(1), Autoscaling()
    scaling.decide(made.state, 0.0)
    known = made.state.services.by_name["a"].service
    made.tell(Deployed(made.now, Service("a", known.template, ScaleRule("fixed:replicas=3", 1, 8))))
    (wish,) = scaling.decide(made.state, 1.0)
    assert wish.replicas == 3


def test_capacity_is_learned_only_from_times_in_which_requests_waited_throughout() -> None:
    made, scaling = rig(1, throughput=20.0), Autoscaling()
    made.settle()
    made.tell(Ready(made.now, "a.0", 1, "127.0.0.1:1"))
    for second in range(10):  # a request waits at each report, but most of the time none does
        scaling.receive("r", report(8 * second, 8 * second, 1, 4, 0.2 * second), made.state, float(second))
        scaling.decide(made.state, second + 0.1)
    assert scaling.figures("a").capacity == 20.0
    for second in range(10, 20):
        scaling.receive("r", report(50 * second, 12 * second, 9, 4, float(second)), made.state, float(second))
        scaling.decide(made.state, second + 0.1)
    assert scaling.figures("a").capacity == 12.0


def test_a_service_is_served_from_the_first_report_of_a_router_until_it_falls_silent() -> None:
    made, scaling = rig(), Autoscaling()
    scaling.decide(made.state, 0.0)
    assert not scaling.is_served("a")
    scaling.receive("r", report(0), made.state, 1.0)
    assert scaling.is_served("a")
    scaling.decide(made.state, 1.0 + ROUTER_TIMEOUT_S + 1.0)
    assert not scaling.is_served("a")


def test_capacity_is_learned_next_to_a_router_without_requests() -> None:
    made, scaling = rig(1), Autoscaling()
    made.settle()
    made.tell(Ready(made.now, "a.0", 1))
    for second in range(10):
        scaling.receive("idle", report(0), made.state, float(second))
        scaling.receive("busy", report(40 * second, 20 * second, 20, 4, float(second)), made.state, float(second))
        scaling.decide(made.state, float(second))
    assert scaling.figures("a").capacity == 20.0
