"""The error gate: the answers of two versions in, a verdict out."""

from __future__ import annotations

import pytest

from support.builders import Rig, grid
from weft.access.wire.messages import LoadReport, ServiceLoad, VersionLoad
from weft.model import Deployed, Job, Ready, RolledBack, ScaleRule, Service, Undeployed, UpdateRule
from weft.server.services.autoscaling import Autoscaling
from weft.server.services.error_gate import GATE_S, MAX_ANSWERS, Answers, verdict


@pytest.mark.parametrize(
    ("old", "new", "window_s", "back"),
    [
        ((100, 0), (20, 3), 5.0, True),
        ((100, 0), (20, 2), 5.0, False),  # 10 % is not over 10 %
        ((100, 0), (19, 19), 5.0, False),
        ((100, 0), (20, 20), GATE_S + 1, False),
        ((100, 20), (100, 40), 5.0, False),  # twice the share of the version before is not over it
        ((100, 20), (100, 41), 5.0, True),
        ((0, 0), (20, 20), 5.0, True),
    ],
)
def test_verdicts(old: tuple[int, int], new: tuple[int, int], window_s: float, *, back: bool) -> None:
    assert bool(verdict(Answers(*old), Answers(*new), window_s)) is back


def test_counters_that_begin_again_and_old_answers_that_fade() -> None:
    total = Answers(5, 1).plus(Answers(12, 3), Answers(10, 2))
    assert total == Answers(7, 2)
    assert total.plus(Answers(3, 1), Answers(12, 3)) == Answers(10, 3)
    assert Answers(MAX_ANSWERS + 2, 8).plus(Answers(1, 1), Answers()) == Answers(MAX_ANSWERS / 2 + 2, 5)


class Updated(Rig):
    """A service whose second version has just become ready."""

    def __init__(self, **rule: bool) -> None:
        super().__init__("fifo", grid(1, 4))
        self.scaling, self.arrivals = Autoscaling(), 0
        self.deploy_twice(**rule)

    def deploy_twice(self, **rule: bool) -> None:
        first = Service("a", Job("a"), ScaleRule(min_replicas=1, max_replicas=1), update=UpdateRule(**rule))
        second = Service("a", Job("a", user="x"), first.scale, version=2, update=first.update)
        for service in (first, second):
            self.tell(Deployed(self.now, service))
            self.settle()
            replicas = self.state.services.by_name["a"].replicas
            self.tell(*(Ready(self.now, each.id, each.run) for each in list(replicas.values())))
        self.scaling.receive("r", LoadReport(services=[ServiceLoad(service="a")]), self.state, self.now)

    def report(self, errors: int, router: str = "r") -> None:
        versions = [
            VersionLoad(version=1, answered=100),
            VersionLoad(version=2, answered=15, errors=errors),
        ]
        self.arrivals += 115
        load = ServiceLoad(service="a", versions=versions, arrivals=self.arrivals)
        self.scaling.receive(router, LoadReport(router=router, services=[load]), self.state, self.now)

    def judge(self) -> tuple[bool, str]:
        return self.scaling.judge(self.state.services.by_name["a"], self.now)


def test_the_answers_of_all_routers_count_and_the_version_goes_back() -> None:
    rig = Updated()
    rig.report(errors=15)
    assert rig.judge() == (True, ""), "15 answers are too few"
    rig.report(errors=15)
    assert rig.judge() == (True, ""), "counters are totals: the same report again adds nothing"
    rig.report(errors=0, router="s")
    watched, why = rig.judge()
    assert watched
    assert why == "50% of its 30 answers were errors (5xx), 0% with the version before"
    decisions = rig.scheduler.roll_back(rig.now, "a", 2, why)
    (back,) = [each for each in decisions if isinstance(each, RolledBack)]
    assert (back.service.template, back.service.version) == (Job("a"), 3)
    assert back.why == f"version 2 was rolled back: {why}"
    assert rig.judge() == (False, ""), "the version that it went back to is not watched"
    assert not rig.scheduler.roll_back(rig.now, "a", 2, why), "version 2 is gone"


def test_a_version_is_compared_with_the_one_that_it_would_go_back_to() -> None:
    rig = Updated()
    rig.report(errors=15)
    rig.report(errors=15, router="s")
    rig.scheduler.roll_back(rig.now, "a", 2, rig.judge()[1])
    third = Service("a", Job("a", user="y"), ScaleRule(min_replicas=1, max_replicas=1), version=4)
    rig.tell(Deployed(rig.now, third))
    rig.settle()
    (name,) = [each.id for each in rig.state.services.by_name["a"].replicas.values() if each.job.user == "y"]
    rig.tell(Ready(rig.now, name, 1))
    versions = [VersionLoad(version=4, answered=20, errors=10)]
    rig.scaling.receive("t", LoadReport(services=[ServiceLoad(service="a", versions=versions)]), rig.state, rig.now)
    why = rig.judge()[1]
    assert why == "50% of its 20 answers were errors (5xx), 0% with the version before", "not with version 2"


def test_the_wait_for_answers_ends_with_the_requests() -> None:
    rig = Updated()
    rig.report(errors=0)
    assert rig.judge() == (True, "")
    rig.later(4.0)
    assert rig.judge() == (False, ""), "no requests come"


def test_answers_of_an_earlier_service_of_the_name_do_not_count() -> None:
    rig = Updated()
    rig.report(errors=0)
    rig.tell(Undeployed(rig.now, "a"))
    for replica in list(rig.state.services.by_name["a"].replicas):
        rig.leave(replica)
    assert not rig.state.services.by_name
    rig.deploy_twice()
    assert rig.judge() == (False, "")
    rig.report(errors=15)
    rig.report(errors=15, router="s")
    assert rig.judge()[1].startswith("100% of its 30 answers")


@pytest.mark.parametrize("rule", [{"error_gate": False}, {"rollback": False}])
def test_a_switch_closes_the_gate(rule: dict[str, bool]) -> None:
    rig = Updated(**rule)
    rig.report(15)
    rig.report(15, "s")
    assert rig.judge() == (False, "")


def test_the_gate_watches_for_two_minutes() -> None:
    rig = Updated()
    rig.later(GATE_S - 1)
    rig.report(15)
    assert rig.judge() == (True, "")
    rig.later(2)
    rig.report(15, "s")
    assert rig.judge() == (False, "")
