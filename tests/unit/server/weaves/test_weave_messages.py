"""Weaves at the scheduler's end of the streams: each member gets its place, and another one when that is decided."""

from __future__ import annotations

import pytest

from support.agent_messages import Room, hello, spec
from support.builders import profile
from weft.access.wire.messages import AgentMessage, Heartbeat, RunNews, StartRun, Weave
from weft.model import Event, Job, Start, Started, Submitted, Wake
from weft.scheduling.core.state.job import weave_id
from weft.scheduling.weaving.pace import Pace
from weft.server.nodes.outbox import Send
from weft.server.weaves.messages import MAX_LIMIT_S, MIN_LIMIT_S, limit_s

ALIKE = profile(2.0, 1.0, 0.2), profile(0.2, 1.0, 2.0)


def woven_room(gpus: int, *nodes: str, policy: str = "muri-l:autopack=off") -> tuple[Room, list[StartRun]]:
    """Two jobs that are woven on all GPUs of these nodes, and the messages that start them."""
    room = Room(policy)
    for conn, node in enumerate(nodes, 1):
        room.say(conn, hello(spec(node, gpus // len(nodes), address=node), disk_id=node, instance=node))
    events: list[Event] = [
        Submitted(room.now, Job(str(at), gpus, profile=each, declared_s=100.0)) for at, each in enumerate(ALIKE, 1)
    ]
    room.rig.now = room.now
    decisions = [*room.rig.tell(*events), *room.rig.tell(Wake(room.now))]
    replies = [reply for decision in decisions for reply in room.registry.execute(decision)]
    return room, [reply.message.start for reply in replies if isinstance(reply, Send)]


@pytest.fixture
def woven() -> tuple[Room, list[StartRun]]:
    room, starts = woven_room(2, "n0")
    assert [fact.weave for fact in room.facts(Start) if isinstance(fact, Start)] == [("1", "2")] * 2
    return room, starts


def reweaves(room: Room, *runs: RunNews, conn: int = 1) -> list[Weave]:
    """Send a heartbeat with these runs; return the weaves that come back."""
    member = room.registry.member_at(conn)
    assert member is not None
    room.heartbeats += 1
    heartbeat = Heartbeat(epoch=member.epoch, at=room.heartbeats, runs=runs)
    events, replies = room.registry.receive(conn, AgentMessage(heartbeat=heartbeat), room.now)
    room.rig.now = room.now
    room.rig.tell(*events)
    sent = [reply.message for reply in replies if isinstance(reply, Send)]
    return [message.reweave.weave for message in sent if message.HasField("reweave")]


def test_members_of_a_weave_get_one_id_and_a_place_each(woven: tuple[Room, list[StartRun]]) -> None:
    room, starts = woven
    assert len({start.weave.id for start in starts}) == 1
    assert starts[0].weave.id == weave_id(room.rig.job("1")) == f"1-{room.now * 1e6:.0f}"
    assert sorted((start.job, start.weave.place, start.weave.size) for start in starts) == [("1", 0, 2), ("2", 1, 2)]
    assert {start.weave.order for start in starts} == {"fair"}


def test_a_woven_run_starts_at_the_rate_that_the_policy_expects() -> None:
    room, starts = woven_room(2, "n0", policy="muri-l:autopack=off:order=slots")
    reweaves(room, *(RunNews(job=s.job, run=1, phase=RunNews.STARTED, weave_id=s.weave.id) for s in starts))
    started = {fact.job: fact.rate for fact in room.facts(Started) if isinstance(fact, Started)}
    assert started == {"1": pytest.approx(3.2 / Pace().iteration_s(ALIKE)), "2": started["1"]}
    assert started["1"] < 1


def test_a_job_that_runs_alone_has_no_weave() -> None:
    room = Room()
    room.say(1, hello())
    room.rig.now = room.now
    (start,) = [d for d in room.rig.tell(Submitted(room.now, Job("1"))) if isinstance(d, Start)]
    (reply,) = room.registry.execute(start)
    assert isinstance(reply, Send)
    assert not reply.message.start.HasField("weave")


def test_all_nodes_of_a_gang_get_the_place_of_the_run() -> None:
    room, starts = woven_room(4, "n0", "n1")
    by_part = {(start.job, start.rank): start.weave for start in starts}
    assert sorted(by_part) == [("1", 0), ("1", 1), ("2", 0), ("2", 1)]
    assert {weave.id for weave in by_part.values()} == {weave_id(room.rig.job("1"))}
    assert [by_part[part].place for part in sorted(by_part)] == [0, 0, 1, 1]


def test_only_the_first_node_of_a_gang_changes_its_weave() -> None:
    room, _ = woven_room(4, "n0", "n1")
    first = room.rig.job("1").placed[0][0]
    conns = {node: room.registry.conn_of(node) for node in ("n0", "n1")}
    for node, conn in conns.items():
        other = RunNews(job="1", run=1, phase=RunNews.STARTED, weave_id="1-5")
        assert len(reweaves(room, other, conn=conn or 0)) == (node == first)


def test_a_run_in_another_weave_than_decided_gets_it_with_every_heartbeat(woven: tuple[Room, list[StartRun]]) -> None:
    room, starts = woven
    wanted = next(start.weave for start in starts if start.job == "1")
    other = RunNews(job="1", run=1, phase=RunNews.STARTED, weave_id="1-5")
    assert reweaves(room, other) == [wanted]
    assert reweaves(room, other) == [wanted]
    assert reweaves(room, RunNews(job="1", run=1, phase=RunNews.STARTED, weave_id=wanted.id)) == []


def test_a_run_that_is_woven_no_more_gets_an_empty_weave(woven: tuple[Room, list[StartRun]]) -> None:
    room, starts = woven
    before = starts[0].weave
    room.rig.job("1").weave = ()
    (said,) = reweaves(room, RunNews(job="1", run=1, phase=RunNews.STARTED, weave_id=before.id))
    assert (said.id, said.size) == ("", 0)


def test_a_run_that_has_not_started_is_not_woven_with_others_yet(woven: tuple[Room, list[StartRun]]) -> None:
    room, _ = woven
    assert reweaves(room, RunNews(job="1", run=1, phase=RunNews.ORDERED, weave_id="1-5")) == []


def test_a_hung_holder_is_passed_over_after_ten_times_the_longest_stage(woven: tuple[Room, list[StartRun]]) -> None:
    room, starts = woven
    assert {start.weave.limit_s for start in starts} == {MAX_LIMIT_S}
    quick, slow = room.rig.job("1"), room.rig.job("2")
    quick.become(Job("1", 2, profile=profile(0.1, 0.3, 0.1)))
    slow.become(Job("2", 2, profile=profile(0.1, 0.2, 0.5)))
    assert limit_s(quick, room.rig.state) == pytest.approx(5.0)
    slow.become(Job("2", 2, profile=profile(0.001, 0.002, 0.005)))
    quick.become(Job("1", 2, profile=profile(0.001, 0.002, 0.005)))
    assert limit_s(quick, room.rig.state) == MIN_LIMIT_S
    slow.become(Job("2", 2))
    assert limit_s(quick, room.rig.state) == MAX_LIMIT_S
