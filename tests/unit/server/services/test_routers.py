"""Draining replicas wait for the word of every router that follows."""

from __future__ import annotations

from weft.server.services.autoscaling import ROUTER_TIMEOUT_S
from weft.server.services.routers import NO_ROUTER_S, Routers

RUN = ("a.0", 1)


def routers(*names: str, had_services: bool = False) -> Routers:
    made = Routers()
    made.begin(0.0, had_services=had_services)
    for name in names:
        made.follow(name, 0.0)
    return made


def test_a_replica_is_drained_once_every_router_has_reported_it() -> None:
    both = routers("busy", "idle")
    both.report("idle", [RUN], 1.0)
    assert both.drained([RUN], 1.0) == []
    both.report("busy", [], 2.0)
    assert both.drained([RUN], 2.0) == []
    both.report("busy", [RUN], 3.0)
    assert both.drained([RUN, ("b.0", 1)], 3.0) == [RUN]


def test_a_report_about_an_earlier_run_does_not_count() -> None:
    one = routers("r")
    one.report("r", [("a.0", 1)], 1.0)
    assert one.drained([("a.0", 2)], 1.0) == []
    assert one.drained([("a.0", 1)], 1.0) == [], "it was forgotten with the run"


def test_a_silent_router_does_not_count() -> None:
    both = routers("gone", "idle")
    for second in range(1, int(ROUTER_TIMEOUT_S) + 1):
        both.report("idle", [RUN], float(second))
        assert both.drained([RUN], float(second)) == []
    assert both.drained([RUN], ROUTER_TIMEOUT_S + 0.1) == [RUN]


def test_without_a_router_for_long_no_replica_has_requests() -> None:
    none = routers(had_services=True)
    for second in range(1, int(NO_ROUTER_S)):
        assert none.drained([RUN], float(second)) == []
    assert none.drained([RUN], NO_ROUTER_S) == [RUN]


def test_a_new_server_waits_for_routers_that_followed_an_earlier_one() -> None:
    new = routers(had_services=True)
    for second in range(1, int(ROUTER_TIMEOUT_S)):
        new.report("idle", [RUN], float(second))
        assert new.drained([RUN], float(second)) == [], "another router may have requests there"
    new.report("late", [], ROUTER_TIMEOUT_S - 0.5)
    assert new.drained([RUN], ROUTER_TIMEOUT_S) == []
    new.report("late", [RUN], ROUTER_TIMEOUT_S + 1.0)
    assert new.drained([RUN], ROUTER_TIMEOUT_S + 1.0) == [RUN]


def test_a_server_that_stood_still_hears_its_routers_again_first() -> None:
    one = routers("r")
    assert one.drained([RUN], 1.0) == []
    assert one.drained([RUN], 60.0) == []
    one.report("r", [], 60.5)
    for second in range(61, 75):
        one.report("r", [], float(second))
        assert one.drained([RUN], float(second)) == []


def test_a_replica_is_ejected_once_all_routers_that_follow_say_so() -> None:
    two = routers("r", "s")
    assert two.ejected() == frozenset()
    two.report("r", [], 1.0, ["a", "b"])
    assert two.ejected() == frozenset(), "the other one may reach it"
    two.report("s", [], 1.0, ["b", "c"])
    assert two.ejected() == {"b"}
    two.report("r", [], ROUTER_TIMEOUT_S + 2.0, ["a"])
    two.drained([], ROUTER_TIMEOUT_S + 2.0)
    assert two.ejected() == {"a"}, "the other one follows no more"
