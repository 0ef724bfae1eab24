"""Runs with parts on several nodes: tables of what the parts say, and what becomes of the run."""

from __future__ import annotations

import pytest

from support.agent_messages import LEASE_S, MARGIN_S, Room, hello, news, spec
from weft.model import Cancelled, Exited, Start, Started, Wake
from weft.server.nodes.outbox import Send


def gang(*, command: tuple[str, ...] = ("train",), retries: int = 0, nodes: int = 2) -> Room:
    """One job on all GPUs of two nodes."""
    room = Room()
    for at in range(nodes):
        room.say(at + 1, hello(spec(f"n{at}"), disk_id=f"h{at}", at=1))
    started = [f"{at + 1}: start 1/1 on [0, 1]" for at in range(1 if command[0] == "mpirun" else nodes)]
    assert room.submit(gpus=2 * nodes, command=command, retries=retries) == started
    return room


def running() -> Room:
    room = gang()
    room.say(1, news("1/1 started"))
    room.say(2, news("1/1 started"))
    assert room.status() == "running 1"
    return room


def test_it_has_started_when_all_parts_have() -> None:
    room = gang()
    assert room.say(1, news("1/1 started")) == []
    assert room.status() == "starting 1"
    assert room.say(2, news("1/1 started")) == []
    assert room.status() == "running 1"
    assert len(room.facts(Started)) == 1


def test_an_order_names_all_nodes_and_which_of_them_it_is() -> None:
    room = Room()
    for at, address in enumerate(("a", "b")):
        room.say(at + 1, hello(spec(f"n{at}", address=address, port=at), disk_id=f"h{at}"))
    room.submit(gpus=4, command=("train",))
    (start,) = room.facts(Start)
    assert isinstance(start, Start)
    first, second = (reply.message.start for reply in room.registry.execute(start) if isinstance(reply, Send))
    assert [(each.node, each.address, each.port, each.gpus) for each in first.gang] == [
        ("n0", "a", 0, 2),
        ("n1", "b", 1, 2),
    ]
    assert first.gang == second.gang
    assert (first.rank, second.rank) == (0, 1)


def test_one_node_saves_for_all_of_them_at_the_time_limit() -> None:
    room = running()
    room.say(2, news("1/1 ended 1 timeout"))
    room.say(1, news("1/1 ended 1 saved-at-limit"))
    assert [fact.how for fact in room.facts(Exited) if isinstance(fact, Exited)] == ["requeued"]


def test_one_that_ends_with_0_waits_for_the_others() -> None:
    room = running()
    assert room.say(1, news("1/1 ended 0")) == []
    assert room.status() == "running 1"
    assert room.heartbeat(1, "1/1 ended 0") == ["1: heartbeat"]
    assert room.say(2, news("1/1 ended 0")) == ["1: confirm 1/1", "2: confirm 1/1"]
    assert room.status() == "done 1"


@pytest.mark.parametrize(
    ("first", "second", "how", "code", "why"),
    [
        ("3", "gang 143", "failed", 3, ""),
        ("0", "3", "failed", 3, ""),
        ("85", "gang 143", "requeued", 85, ""),
        ("never-started", "gang 143", "lost", None, "never-started"),
        ("port-taken", "never-started", "lost", None, "port-taken"),
        ("lease-ended", "gang 143", "lost", None, "lease-ended"),
        ("3", "0", "failed", 3, ""),
        ("gang 1", "0", "lost", None, "node-lost"),
        ("gang 1", "7", "failed", 7, ""),
        ("oom 137", "gang 0", "failed", 137, "oom"),
    ],
)
def test_it_ends_as_the_first_part_that_failed(first: str, second: str, how: str, code: int | None, why: str) -> None:
    room = running()
    replies = room.say(1, news(f"1/1 ended {first}"))
    assert replies == ([] if first == "0" else ["2: stop 1/1 gang"])
    again = ["1: start 1/2 on [0, 1]", "2: start 1/2 on [0, 1]"] if why in ("lease-ended", "node-lost") else []
    assert room.say(2, news(f"1/1 ended {second}")) == ["1: confirm 1/1", "2: confirm 1/1", *again]
    (fact,) = room.facts(Exited)
    assert isinstance(fact, Exited)
    assert (fact.how, fact.code, fact.why) == (how, code, why)


def test_those_that_are_to_go_are_told_again_with_every_beat() -> None:
    room = running()
    room.say(1, news("1/1 ended 3"))
    assert room.heartbeat(2, "1/1 started") == ["2: heartbeat", "2: stop 1/1 gang"]
    assert room.heartbeat(2) == ["2: heartbeat", "2: stop 1/1 gang"]
    assert room.heartbeat(1, "1/1 ended 3") == ["1: heartbeat", "2: stop 1/1 gang"]


def test_a_part_that_never_started_takes_the_others_with_it_and_costs_no_retry() -> None:
    room = gang()
    room.say(1, news("1/1 started"))
    assert room.say(2, news("1/1 ended never-started")) == ["1: stop 1/1 gang"]
    assert room.say(1, news("1/1 ended gang 143"))[:2] == ["2: confirm 1/1", "1: confirm 1/1"]
    assert room.rig.job("1").failures == 0
    delays = []
    for run in range(2, 6):
        (fact,) = room.facts(Exited)[run - 2 :]
        assert isinstance(fact, Exited)
        delays.append(fact.delay_s)
        room.now += fact.delay_s
        room.tell(Wake(room.now))
        assert room.status() == f"starting {run}"
        room.say(1, news(f"1/{run} ended never-started"))
        room.say(2, news(f"1/{run} ended never-started"))
    assert delays == [1, 2, 4, 8]


def test_a_gang_that_fails_is_retried_as_one() -> None:
    room = gang(retries=1)
    room.say(1, news("1/1 ended 3"))
    replies = room.say(2, news("1/1 ended gang 143"))
    assert sorted(replies) == ["1: confirm 1/1", "1: start 1/2 on [0, 1]", "2: confirm 1/1", "2: start 1/2 on [0, 1]"]
    assert room.rig.job("1").failures == 1


def test_a_stopped_gang_has_stopped_when_all_parts_have() -> None:
    room = running()
    assert room.tell(Cancelled(room.now, "1")) == ["1: stop 1/1 cancelled", "2: stop 1/1 cancelled"]
    assert room.say(1, news("1/1 ended cancelled 143")) == ["2: stop 1/1 cancelled"]
    assert room.status() == "stopping 1"
    assert room.say(2, news("1/1 ended 0")) == ["1: confirm 1/1", "2: confirm 1/1"]
    assert room.status() == "cancelled 1"


def test_a_restarted_scheduler_hears_of_the_parts_again() -> None:
    room = running()
    room.say(1, news("1/1 ended 0"))
    room.restart()
    assert room.say(3, hello(spec("n0"), "1/1 ended 0", disk_id="h0", at=2)) == ["3: welcome"]
    assert room.say(4, hello(spec("n1"), "1/1 ended 0", disk_id="h1", at=2)) == [
        "4: welcome",
        "3: confirm 1/1",
        "4: confirm 1/1",
    ]
    assert room.status() == "done 1"


def test_an_order_waits_until_it_is_known_how_all_are_reached() -> None:
    room = gang()
    room.restart()
    assert room.say(3, hello(spec("n0"), disk_id="h0", at=2)) == ["3: welcome"]
    assert room.say(4, hello(spec("n1"), disk_id="h1", at=2)) == ["4: welcome", "4: start 1/1 on [0, 1]"]
    assert room.heartbeat(3) == ["3: heartbeat", "3: start 1/1 on [0, 1]"]


def test_a_lost_node_takes_its_part_with_it_and_the_job_waits_for_the_others() -> None:
    room = running()
    room.gone(1)
    room.now += LEASE_S + MARGIN_S - 1
    room.heartbeat(2, "1/1 started")
    assert room.later(1) == ["2: stop 1/1 node-lost"]
    assert room.status() == "stopping 1"
    assert room.say(2, news("1/1 ended node-lost 143")) == ["2: confirm 1/1"]
    assert room.status() == "waiting 1"
    assert room.rig.job("1").failures == 0


@pytest.mark.parametrize("code", ["0", "3"])
def test_where_only_the_lost_node_was_waited_for_the_job_waits_at_once(code: str) -> None:
    room = running()
    room.gone(1)
    room.say(2, news(f"1/1 ended {code}"))
    room.now += LEASE_S + MARGIN_S - 1
    room.heartbeat(2, f"1/1 ended {code}")
    assert room.later(1) == ["2: confirm 1/1"]
    assert room.status() == "waiting 1"
    assert room.rig.job("1").failures == 0


def test_with_mpirun_only_the_first_node_has_a_part() -> None:
    room = gang(command=("mpirun", "train"))
    assert room.say(1, news("1/1 started")) == []
    assert room.status() == "running 1"
    assert room.heartbeat(2) == ["2: heartbeat"]
    assert room.heartbeat(2, "1/1 started") == ["2: heartbeat", "2: stop 1/1 fenced 0"]
    assert room.say(1, news("1/1 ended 0")) == ["1: confirm 1/1"]
    assert room.status() == "done 1"


@pytest.mark.parametrize("lost", [1, 2])
def test_with_mpirun_the_loss_of_either_node_ends_it(lost: int) -> None:
    room = gang(command=("mpirun", "train"))
    room.say(1, news("1/1 started"))
    room.gone(lost)
    room.now += LEASE_S + MARGIN_S - 1
    room.heartbeat(3 - lost, *(["1/1 started"] if lost == 2 else []))
    assert room.later(1) == (["1: stop 1/1 node-lost"] if lost == 2 else [])
    if lost == 2:
        assert room.say(1, news("1/1 ended node-lost 143")) == ["1: confirm 1/1"]
    assert room.status() == "waiting 1"
