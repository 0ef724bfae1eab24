"""Reports of a router to its scheduler, and tables from it."""

from __future__ import annotations

import random

from weft.router.rules.dispatch import Dispatcher, ReplicaPlan
from weft.router.scheduler_link import load_message, read_table
from weft.router.service import ServiceLoad
from weft.wire import messages as m


def test_a_report_holds_what_each_replica_answered_and_failed_to_answer() -> None:
    dispatcher: Dispatcher[int] = Dispatcher(random.random, 0)
    dispatcher.update([ReplicaPlan("7", version=3), ReplicaPlan("8")])
    broken, idle = dispatcher.replicas.values()
    for status in (200, 404, 500):
        broken.health.note_answer(status)
    broken.health.note_failure()
    broken.health.last_error = "Connection refused"
    dispatcher.suspect(broken)
    report = load_message(ServiceLoad("chat", 4, 3, 0, 0, 2, replicas=(broken, idle)))
    assert list(report.replicas) == [
        m.ReplicaLoad(
            name="7", version=3, answered=3, errors=1, failures=1, ejected=True, last_error="Connection refused"
        ),
        m.ReplicaLoad(name="8", version=1),
    ]


def test_the_table_of_a_scheduler_says_why_a_service_fails_and_how_to_ask_its_replicas() -> None:
    table = m.RouteTable(services=[m.ServiceRoute(name="chat", failed="exit code 3", health="/health")])
    (service,) = read_table(table).services
    assert (service.failed, service.health) == ("exit code 3", "/health")
