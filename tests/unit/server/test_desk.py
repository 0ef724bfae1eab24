"""What users ask for becomes events: once for each request, however often it is sent."""

from __future__ import annotations

import os

from builders import Rig
from weft.model import Event, Forgotten, Gpu, Node
from weft.server.desk import Desk
from weft.server.numbers import GpuNumbers
from weft.wire.messages import JobSpec, SubmitRequest, Variable

NODE = Node("here", (Gpu(), Gpu()), cpus=4)


def a_desk() -> tuple[Rig, Desk]:
    rig = Rig("fifo", [NODE])
    numbers = GpuNumbers()
    numbers.know(NODE.id, [0, 1])
    return rig, Desk(rig.scheduler, NODE, numbers, user="ann")


def request(key: str) -> SubmitRequest:
    path = Variable(name="PATH", value=os.environ["PATH"])
    return SubmitRequest(jobs=[JobSpec(command=["true"])], env=[path], key=key)


def submit(rig: Rig, desk: Desk, key: str) -> tuple[list[Event], list[str]]:
    events, reply = desk.submit(request(key), rig.now)
    rig.tell(*events)
    return events, list(reply.ids)


def test_a_request_that_is_sent_twice_is_taken_once() -> None:
    rig, desk = a_desk()
    first, ids = submit(rig, desk, "k")
    assert (len(first), ids) == (1, ["1"])
    assert submit(rig, desk, "k") == ([], ["1"])


def test_requests_are_remembered_as_long_as_their_jobs() -> None:
    rig, desk = a_desk()
    for key in ("old", "new"):
        submit(rig, desk, key)
    rig.exit("1")
    desk.prune()
    assert submit(rig, desk, "old") == ([], ["1"])
    rig.tell(Forgotten(rig.now, ("1",)))
    desk.prune()
    assert submit(rig, desk, "old")[1] == ["3"]
    assert submit(rig, desk, "new") == ([], ["2"])
