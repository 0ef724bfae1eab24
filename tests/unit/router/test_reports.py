"""Reports of a router to its scheduler, and tables from it."""

from __future__ import annotations

import random

from weft.access.wire import messages as m
from weft.router.rules.dispatch import Dispatcher, ReplicaPlan
from weft.router.scheduler_link import load_message, read_table
from weft.router.service import ServiceLoad


def test_a_report_names_the_replicas_that_are_out_and_what_became_of_requests_of_each_version() -> None:
    dispatcher: Dispatcher[int] = Dispatcher(random.random, 0)
    dispatcher.update([ReplicaPlan("7", version=3), ReplicaPlan("8")])
    dispatcher.suspect(dispatcher.replicas["7"])
    replicas = tuple(dispatcher.replicas.values())
    report = load_message(ServiceLoad("chat", 4, 3, 0, 0, 2, replicas=replicas, versions={3: (4, 2)}))
    assert list(report.ejected) == ["7"]
    assert list(report.versions) == [m.VersionLoad(version=3, answered=4, errors=2)]


def test_the_table_of_a_scheduler_says_why_a_service_fails_and_how_to_ask_its_replicas() -> None:
    table = m.RouteTable(services=[m.ServiceRoute(name="chat", failed="exit code 3", health="/health")])
    (service,) = read_table(table).services
    assert (service.failed, service.health) == ("exit code 3", "/health")
