"""The scheduler's end of the agents' streams: messages in, `==` on what comes out."""

from __future__ import annotations

import pytest

from support.agent_messages import HEARTBEAT_S, LEASE_S, MARGIN_S, Room, hello, news, spec
from support.builders import Rig
from weft.access.wire.messages import (
    AgentMessage,
    GpuBlock,
    GpuMemory,
    GpuNews,
    GpuReading,
    Heartbeat,
    Hello,
    NodeStatus,
    Variable,
)
from weft.model import (
    Blocked,
    Cancelled,
    Cordoned,
    Deployed,
    Exited,
    Job,
    Measured,
    NodeJoined,
    NodeLost,
    Service,
    Started,
    Submitted,
    Unblocked,
    Uncordoned,
)
from weft.model.status import Reason
from weft.server.nodes.outbox import Send
from weft.server.nodes.registry import NodeRegistry


@pytest.fixture
def room() -> Room:
    return Room()


def busy() -> Room:
    """A node with one job that runs there."""
    made = Room()
    made.say(1, hello())
    made.submit()
    made.say(1, news("1/1 started"))
    assert made.status() == "running 1"
    return made


# ---- one run on one node


def test_a_run_is_ordered_once_its_node_has_joined_and_confirmed_once_its_end_is_known(room: Room) -> None:
    assert room.submit() == []
    assert room.say(1, hello()) == ["1: welcome", "1: start 1/1 on [0]"]
    assert room.say(1, news("1/1 started")) == []
    assert room.status() == "running 1"
    assert room.say(1, news("1/1 ended 0")) == ["1: confirm 1/1"]
    assert room.status() == "done 1"


def test_a_start_and_an_end_are_said_once_however_often_they_are_heard() -> None:
    room = busy()
    assert room.say(1, news("1/1 started")) == []
    assert room.heartbeat(1, "1/1 started") == ["1: heartbeat"]
    assert room.say(1, news("1/1 ended 3"), news("1/1 ended 3")) == ["1: confirm 1/1", "1: confirm 1/1"]
    assert len(room.facts(Started)) == len(room.facts(Exited)) == 1


def test_what_is_said_before_the_first_has_reached_the_state_is_said_once() -> None:
    room = busy()
    first, confirm = room.registry.receive(1, news("1/1 ended 0"), room.now)
    second, again = room.registry.receive(1, news("1/1 ended 0"), room.now)
    assert [type(event) for event in first] == [Exited]
    assert (second, again) == ([], confirm)


# ---- the table: what the scheduler thinks, what the agent says, what happens


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("", "1: start 1/1 on [0]"),
        ("1/1 ordered", None),
        ("1/1 started", None),
        ("1/1 ended 0", "1: confirm 1/1"),
        ("2/1 started", "1: stop 2/1 fenced 0"),
        ("1/2 ordered", "1: stop 1/2 fenced 0"),
        ("2/1 ended 0", "1: confirm 2/1"),
    ],
)
def test_a_run_that_is_starting(room: Room, said: str, answer: str | None) -> None:
    room.say(1, hello())
    room.submit()
    also = ["1: start 1/1 on [0]"] if said.startswith(("2/", "1/2")) else []
    assert room.heartbeat(1, *([said] if said else [])) == ["1: heartbeat", *([answer] if answer else []), *also]


@pytest.mark.parametrize(
    ("said", "answer"),
    [("1/1 ordered", None), ("1/1 started", None), ("1/1 ended 9", "1: confirm 1/1"), ("", "2: stop 1/1 asked")],
)
def test_a_run_that_runs_when_its_agent_connects_anew(said: str, answer: str | None) -> None:
    room = busy()
    room.gone(1)
    replies = room.say(2, hello(None, *([said] if said else []), at=2))
    assert replies == ["2: welcome", *([answer.replace("1:", "2:")] if answer else [])]


def test_a_beat_that_was_overtaken_by_the_news_of_a_start_does_no_harm() -> None:
    room = busy()
    assert room.heartbeat(1) == ["1: heartbeat"]
    assert room.heartbeat(1, "1/1 started") == ["1: heartbeat"]
    assert room.heartbeat(1) == ["1: heartbeat"]
    assert room.heartbeat(1) == ["1: heartbeat", "1: stop 1/1 asked"]


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("1/1 started", "1: stop 1/1 cancelled"),
        ("1/1 ordered", "1: stop 1/1 cancelled"),
        ("", "1: stop 1/1 cancelled"),
        ("1/1 ended cancelled 143", "1: confirm 1/1"),
        ("1/1 ended never-started", "1: confirm 1/1"),
    ],
)
def test_a_run_that_is_stopping(said: str, answer: str) -> None:
    room = busy()
    assert room.tell(Cancelled(room.now, "1")) == ["1: stop 1/1 cancelled"]
    assert room.heartbeat(1, *([said] if said else [])) == ["1: heartbeat", answer]
    assert room.status() == ("cancelled 1" if "ended" in said else "stopping 1")


@pytest.mark.parametrize("said", ["1/1 started", "1/1 ordered"])
def test_a_run_that_was_given_up_is_fenced(said: str) -> None:
    room = busy()
    room.gone(1)
    room.later(LEASE_S + MARGIN_S)
    assert room.status() == "waiting 1"
    replies = room.say(2, hello(None, said, at=2))
    assert replies == ["2: welcome", "2: stop 1/1 fenced 0", "2: start 1/2 on [0]"]


# ---- silence and loss


def test_a_node_whose_stream_broke_is_silent_and_nothing_is_started_there() -> None:
    room = busy()
    assert room.gone(1) == []
    assert room.facts(Cordoned) == [Cordoned(room.now, "n0", "ReqNodeNotAvail", "its agent sends no heartbeats")]
    assert room.submit("2") == []
    assert room.status("2") == "waiting 0"
    assert room.say(2, hello(None, "1/1 started", at=2)) == ["2: welcome", "2: start 2/1 on [1]"]
    assert len(room.facts(Uncordoned)) == 1


def test_a_node_that_misses_three_beats_is_silent_until_the_next() -> None:
    room = busy()
    assert room.later(3 * HEARTBEAT_S) == []
    assert not room.facts(Cordoned)
    assert room.later(0.1) == []
    assert len(room.facts(Cordoned)) == 1
    assert room.tell(Cancelled(room.now, "1")) == []
    assert room.heartbeat(1, "1/1 started") == ["1: heartbeat", "1: stop 1/1 cancelled"]
    assert len(room.facts(Uncordoned)) == 1


def test_a_node_is_lost_when_its_lease_has_ended_and_its_runs_were_killed() -> None:
    room = busy()
    room.gone(1)
    room.later(LEASE_S + MARGIN_S - 0.1)
    assert room.status() == "running 1"
    room.later(0.1)
    assert room.facts(NodeLost) == [NodeLost(room.now, "n0")]
    assert room.status() == "waiting 1"
    assert list(room.registry.members()) == []


def test_a_stream_of_which_nothing_came_for_a_lease_is_closed() -> None:
    room = busy()
    room.later(HEARTBEAT_S)
    assert room.later(LEASE_S + MARGIN_S - HEARTBEAT_S) == ["1: closed ABORTED"]
    assert room.heartbeat(1) == ["1: closed ABORTED"]


def test_a_scheduler_that_stood_still_for_a_lease_takes_up_what_comes_back() -> None:
    room = busy()
    room.now += LEASE_S + MARGIN_S
    lost, _ = room.registry.tick(room.now)
    joined, _ = room.registry.receive(2, hello(None, "1/1 ended lease-ended", at=2), room.now)
    assert [type(event) for event in (*lost, *joined)] == [Cordoned, NodeLost, NodeJoined, Uncordoned]
    room.tell(*lost, *joined)
    assert room.status() == "starting 2"


def test_another_policy_brings_another_state() -> None:
    room = busy()
    room.rig.scheduler = room.rig.fresh()
    room.rig.scheduler.replay(room.rig.facts)
    room.registry.state = room.rig.state
    assert room.heartbeat(1, "1/1 started") == ["1: heartbeat"]
    assert room.say(1, news("1/1 ended 0")) == ["1: confirm 1/1"]
    assert room.status() == "done 1"


def test_beats_keep_a_node_and_those_of_another_registration_do_not() -> None:
    room = busy()
    for _ in range(30):
        room.later(HEARTBEAT_S)
        assert room.heartbeat(1, "1/1 started") == ["1: heartbeat"]
    for _ in range(3):
        room.later(HEARTBEAT_S)
        assert room.heartbeat(1, "1/1 started", epoch=1) == []
    room.later(HEARTBEAT_S)
    assert len(room.facts(Cordoned)) == 1


def test_the_lease_of_all_nodes_counts_from_a_restart() -> None:
    room = busy()
    room.later(3 * HEARTBEAT_S)
    room.restart()
    assert room.later(0) == []
    assert len(room.facts(Cordoned)) == 1
    room.later(LEASE_S + MARGIN_S - 0.1)
    assert room.status() == "running 1"
    assert room.say(1, hello(None, "1/1 started")) == ["1: welcome"]
    room.later(LEASE_S - 1)
    assert room.heartbeat(1, "1/1 started") == ["1: heartbeat"]
    assert room.status() == "running 1"
    assert not room.facts(NodeLost)


def test_an_epoch_is_higher_than_all_before_it_also_after_a_restart() -> None:
    room = busy()
    epochs = []
    for conn in range(2, 6):
        room.gone(conn - 1)
        if conn == 4:
            room.restart()
            room.later(0.01)
        room.say(conn, hello(None, "1/1 started", at=conn))
        member = room.registry.member_at(conn)
        assert member is not None
        epochs.append(member.epoch)
    assert epochs == sorted(set(epochs))


# ---- who is taken


def test_an_agent_that_connects_anew_takes_its_own_place() -> None:
    room = busy()
    assert room.say(2, hello(None, "1/1 started", at=2)) == ["1: closed ABORTED", "2: welcome"]
    assert room.heartbeat(1) == ["1: closed ABORTED"]
    assert room.heartbeat(2, "1/1 started") == ["2: heartbeat"]


def test_a_hello_that_came_twice_is_answered_twice_and_another_is_not(room: Room) -> None:
    assert room.say(1, hello(), hello()) == ["1: welcome", "1: welcome"]
    assert room.say(1, hello(at=2)) == ["1: closed FAILED_PRECONDITION"]
    assert len(room.facts(NodeJoined)) == 1


@pytest.mark.parametrize(
    ("message", "code", "words"),
    [
        (hello(protocol=99), "FAILED_PRECONDITION", "bring both to the same version"),
        (AgentMessage(hello=Hello(protocol=9, version="2" * 999)), "FAILED_PRECONDITION", "(Weft 2222222"),
        (hello(instance="other"), "ALREADY_EXISTS", "give this one another --id"),
        (hello(instance="other", disk_id="elsewhere"), "ALREADY_EXISTS", "give this one another --id"),
        (hello(None, "1/1 started", cluster="theirs"), "FAILED_PRECONDITION", "another scheduler"),
    ],
)
def test_refused_while_a_node_is_connected(message: AgentMessage, code: str, words: str) -> None:
    room = busy()
    assert room.say(2, message) == [f"2: closed {code}"]
    assert words in room.words[-1]
    assert room.heartbeat(1, "1/1 started") == ["1: heartbeat"]


def test_an_agent_started_anew_on_a_node_is_taken_when_the_first_is_silent() -> None:
    room = busy()
    room.gone(1)
    assert room.say(2, hello(None, "1/1 started", instance="next", at=2)) == ["2: welcome"]


def test_another_machine_of_that_name_waits_for_the_lease_of_the_first() -> None:
    room = busy()
    room.gone(1)
    other = hello(instance="next", disk_id="elsewhere", at=2)
    assert room.say(2, other) == ["2: closed ALREADY_EXISTS"]
    assert f"{LEASE_S + MARGIN_S:.0f} s more" in room.words[-1]
    room.restart()
    assert room.say(3, other) == ["3: closed ALREADY_EXISTS"]
    room.later(LEASE_S + MARGIN_S)
    assert room.say(4, other) == ["4: welcome", "4: start 1/2 on [0]"]


def test_of_two_machines_of_a_name_that_come_in_one_batch_the_last_is_the_node(room: Room) -> None:
    """The state has heard of neither."""
    events, _ = room.registry.receive(1, hello(disk_id="h1"), room.now)
    events += room.registry.disconnect(1, room.now)[0]
    events += room.registry.receive(2, hello(disk_id="h2", at=2), room.now)[0]
    room.tell(*events)
    assert room.rig.state.resources.by_id["n0"].node.disk_id == "h2"
    assert [type(event) for event in events if isinstance(event, NodeJoined | NodeLost)] == [
        NodeJoined, NodeLost, NodeJoined,
    ]  # fmt: skip


def test_another_machine_takes_the_name_at_once_where_nothing_runs(room: Room) -> None:
    room.say(1, hello())
    room.gone(1)
    assert room.say(2, hello(instance="next", disk_id="elsewhere", at=2)) == ["2: welcome"]
    assert [type(fact) for fact in room.facts(NodeJoined, NodeLost)] == [NodeJoined, NodeLost, NodeJoined]


def test_other_gpus_than_before_are_refused_while_runs_are_on_them() -> None:
    room = busy()
    room.gone(1)
    assert room.say(2, hello(spec(gpus=3), "1/1 started", at=2)) == ["2: closed FAILED_PRECONDITION"]
    assert "other GPUs" in room.words[-1]
    swapped = spec()
    swapped.gpus[0].uuid, swapped.gpus[1].uuid = "n0-1", "n0-0"
    assert room.say(3, hello(swapped, "1/1 started", at=2)) == ["3: closed FAILED_PRECONDITION"]
    assert room.say(4, hello(spec(gpus=3), "1/1 ended 0", at=3)) == ["4: welcome", "4: confirm 1/1"]
    assert room.status() == "done 1"
    assert room.rig.state.gpus == 3


def test_a_node_with_other_labels_is_what_it_is_once_nothing_runs_there() -> None:
    room = busy()
    room.gone(1)
    labelled = spec(labels=[Variable(name="zone", value="a")])
    assert room.say(2, hello(labelled, "1/1 started", at=2)) == ["2: welcome"]
    assert "zone" not in dict(room.rig.state.resources.by_id["n0"].node.labels)
    room.say(2, news("1/1 ended 0"))
    room.gone(2)
    assert room.say(3, hello(labelled, at=3)) == ["3: welcome"]
    assert dict(room.rig.state.resources.by_id["n0"].node.labels)["zone"] == "a"


def test_an_agent_of_another_scheduler_is_taken_once_its_runs_there_have_ended() -> None:
    room = Room(cluster="ours")
    assert room.say(1, hello(None, "7/1 ended 0", cluster="theirs")) == ["1: closed FAILED_PRECONDITION"]
    assert room.say(2, hello(cluster="theirs")) == ["2: welcome"]


def test_whoever_has_not_said_hello_is_not_heard(room: Room) -> None:
    assert room.say(1, news("1/1 started")) == ["1: closed ABORTED"]
    assert room.say(1, AgentMessage(heartbeat=Heartbeat(epoch=1, at=1))) == ["1: closed ABORTED"]
    assert not room.rig.facts


# ---- GPUs


def test_blocks_are_compared_with_what_is_known_and_those_of_others_left_alone(room: Room) -> None:
    room.say(1, hello())
    room.tell(Blocked(room.now, "n0", 1, "Drained"))
    block = GpuBlock(gpu=0, why="ForeignProcess", memory_mb=10, detail="python")
    assert room.say(1, AgentMessage(gpus=GpuNews(blocks=[block, GpuBlock(gpu=1, why="Drained")]))) == []
    assert room.heartbeat(1, blocks=[block]) == ["1: heartbeat"]
    found = room.facts(Blocked)[1:]
    assert found == [Blocked(room.now, "n0", 0, "ForeignProcess", 10, "python")]
    assert room.heartbeat(1, blocks=[GpuBlock(gpu=0, why="ForeignProcess", memory_mb=20)]) == ["1: heartbeat"]
    assert room.heartbeat(1) == ["1: heartbeat"]
    assert room.facts(Unblocked) == [Unblocked(room.now, "n0", 0, "ForeignProcess")]


def test_only_the_node_of_a_run_says_what_it_needs() -> None:
    room = busy()
    room.say(2, hello(spec("n1"), disk_id="other"))
    need = AgentMessage(gpus=GpuNews(measured=[GpuMemory(job="1", run=1, memory_mb=5)]))
    room.say(2, need)
    assert not room.facts(Measured)
    assert not room.registry.speaks_for(2, "1", 1)
    room.say(1, need)
    assert room.facts(Measured) == [Measured(room.now, "1", 1, 5)]
    assert room.registry.speaks_for(1, "1", 1)


def test_a_message_counts_once_for_each_run_in_it() -> None:
    room = busy()
    needs = [GpuMemory(job="1", run=1, memory_mb=memory_mb) for memory_mb in (5, 6, 7)]
    room.say(1, AgentMessage(gpus=GpuNews(measured=needs)))
    assert room.facts(Measured) == [Measured(room.now, "1", 1, 7)]
    assert room.heartbeat(1, *["7/1 started"] * 3, "1/1 started") == ["1: heartbeat", "1: stop 7/1 fenced 0"]
    assert room.registry.killed == ["run 1 of job 7 on n0"]


def test_what_a_node_says_of_itself_is_kept(room: Room) -> None:
    room.say(1, hello())
    reading = GpuReading(gpu=0, used_mb=3, utilisation=0.5, processes=1)
    room.heartbeat(1, status=NodeStatus(load=1.5, ram_used_mb=7, readings=[reading]))
    (member,) = room.registry.members()
    assert (member.status.load, member.status.ram_used_mb, member.status.readings[0].used_mb, member.connected) == (
        1.5,
        7,
        3,
        True,
    )
    assert room.registry.conn_of("n0") == 1
    room.gone(1)
    assert room.registry.conn_of("n0") is None


def test_a_node_that_has_run_out_of_disk_is_left_alone_for_a_minute() -> None:
    room = busy()
    room.say(1, news("1/1 ended disk-full"))
    assert room.status() == "waiting 1"
    assert room.facts(Cordoned) == [Cordoned(room.now, "n0", "DiskFloor", "no space was left to start a job")]
    room.later(30)
    room.heartbeat(1)
    room.restart()
    assert room.say(2, hello(at=2)) == ["2: welcome"]
    for _ in range(11):
        assert room.later(HEARTBEAT_S) == []
        room.heartbeat(2)
    assert room.later(HEARTBEAT_S) == ["2: start 1/2 on [0]"]


def test_the_order_of_a_later_run_brings_the_checkpoint_of_an_earlier_one() -> None:
    rig = Rig("fifo")
    registry = NodeRegistry(
        rig.state,
        100.0,
        lease_s=LEASE_S,
        heartbeat_s=HEARTBEAT_S,
        margin_s=MARGIN_S,
        checkpoint=lambda job: f"of {job}",
    )
    rig.tell(Submitted(100.0, Job("1", retries=1)))
    orders: list[str] = []
    for conn, message in ((1, hello()), (1, news("1/1 started")), (1, news("1/1 ended 3"))):
        events, _ = registry.receive(conn, message, 100.0)
        decisions = rig.tell(*events) if events else []
        replies = [reply for decision in decisions for reply in registry.execute(decision)]
        orders += [
            reply.message.start.checkpoint
            for reply in replies
            if isinstance(reply, Send) and reply.message.HasField("start")
        ]
    assert orders == ["", "of 1"]


# ---- replicas of silent nodes


def served() -> Room:
    """A node with a replica, and a registry that has been up for a while."""
    made = Room()
    made.say(1, hello())
    made.tell(Deployed(made.now, Service("a", Job("a"))))
    made.say(1, news("a.0/1 started"))
    for _ in range(20):
        made.later(1.0)
        made.heartbeat(1, "a.0/1 started")
    return made


def unreachable(room: Room) -> bool:
    return ("n0", Reason.NODE_UNREACHABLE) in room.rig.state.closed


def test_a_silent_node_is_unreachable_after_the_lease_of_its_replicas_until_it_reports() -> None:
    room = served()
    for silent_s in range(1, 12):
        room.later(1.0)
        assert unreachable(room) is (silent_s >= 10)
    assert room.rig.job("a.0").unreachable
    room.heartbeat(1, "a.0/1 started")
    assert not unreachable(room)
    assert not room.rig.job("a.0").unreachable


def test_a_silent_agent_whose_replica_fails_at_all_routers_is_unreachable_at_once() -> None:
    room = served()
    room.later(1.0, ejected={"a.0"})
    assert not unreachable(room), "a failing replica alone: its agent will say more"
    room.gone(1)
    room.later(1.0)
    assert not unreachable(room)
    room.later(1.0, ejected={"a.0"})
    assert unreachable(room)


def test_a_server_that_starts_or_stood_still_gives_agents_time_to_report() -> None:
    room = served()
    room.later(60.0)
    assert not unreachable(room), "it could not hear them"
    room.restart()
    for silent_s in range(12):
        room.later(1.0)
        assert not unreachable(room), silent_s
    room.later(1.0)
    assert unreachable(room)
    twin = room.registry
    room.restart()
    room.say(2, hello(None, "a.0/1 started", at=2))
    assert not unreachable(room)
    assert room.registry is not twin


def test_a_silent_node_without_replicas_is_not_unreachable() -> None:
    room = busy()
    room.gone(1)
    for _ in range(20):
        room.later(1.0)
    assert not unreachable(room)
