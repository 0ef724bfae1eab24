"""Nodes that fail the starts of runs, or whose GPUs report errors, are cordoned: never the last of its kind."""

from __future__ import annotations

import pytest

from support.agent_messages import Room, hello, news, spec
from weft.access.wire.messages import GpuReading, NodeStatus
from weft.model import Cordoned

UNHEALTHY = "NodeUnhealthy"


def pair(gpus: int = 1) -> Room:
    """Two nodes of one kind, of which n0 is filled first."""
    made = Room()
    made.say(1, hello(spec("n0", gpus), instance="a", disk_id="a"))
    made.say(2, hello(spec("n1", gpus), instance="b", disk_id="b"))
    return made


def cordoned(room: Room) -> list[str]:
    return [fact.node for fact in room.facts(Cordoned) if isinstance(fact, Cordoned) and fact.why == UNHEALTHY]


def fail_starts(room: Room, users: str, why: str = "start-failed") -> None:
    """Submit a job of each of these users, and let each fail to start on n0."""
    for number, user in enumerate(users, 1):
        room.submit(str(number), user=user)
        assert room.rig.job(str(number)).slots[0][0] == "n0"
        room.say(1, news(f"{number}/1 ended {why}"))


@pytest.mark.parametrize(
    ("users", "why", "unhealthy"),
    [
        ("aab", "start-failed", True),
        ("aba", "bad-directory", True),
        ("aaaa", "start-failed", False),  # the jobs of one user may all have the same mistake
        ("ab", "start-failed", False),
        ("aab", "oom", False),
        ("aab", "3", False),
    ],
)
def test_three_failed_starts_in_a_row_of_two_users(users: str, why: str, unhealthy: bool) -> None:
    room = pair()
    fail_starts(room, users, why)
    assert cordoned(room) == (["n0"] if unhealthy else [])
    if unhealthy:
        (fact,) = (fact for fact in room.facts(Cordoned) if isinstance(fact, Cordoned) and fact.why == UNHEALTHY)
        assert fact.detail.startswith("3 starts in a row failed (job 1: ")
        room.submit("9", user="c")
        assert room.rig.job("9").slots[0][0] == "n1"


def test_a_run_that_starts_resets_the_count() -> None:
    room = pair(gpus=2)
    fail_starts(room, "ab")
    room.submit("3", user="a")
    room.say(1, news("3/1 started"))
    room.submit("4", user="b")
    room.say(1, news("4/1 ended start-failed"))
    assert cordoned(room) == []


def test_the_last_node_of_its_kind_stays() -> None:
    room = Room()
    room.say(1, hello(spec("n0", 1), instance="a", disk_id="a"))
    other = spec("n1", 1)
    other.gpus[0].model = "other"
    room.say(2, hello(other, instance="b", disk_id="b"))
    for number, user in enumerate("aab", 1):
        room.submit(str(number), user=user)
        room.say(1, news(f"{number}/1 ended start-failed"))
    assert cordoned(room) == []


def broken(error: str) -> NodeStatus:
    return NodeStatus(readings=[GpuReading(gpu=0), GpuReading(gpu=1, error=error)])


def test_errors_of_a_gpu_cordon_its_node_once() -> None:
    room = pair(gpus=2)
    room.heartbeat(1, status=broken(""))
    assert cordoned(room) == []
    room.heartbeat(1, status=broken("Xid 79"))
    room.heartbeat(1, status=broken("Xid 79"))
    assert cordoned(room) == ["n0"]
    room.heartbeat(2, status=broken("Xid 79"))
    assert cordoned(room) == ["n0"], "the last open node of its kind"
