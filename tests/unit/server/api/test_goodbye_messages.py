"""Agents that leave in order, as the scheduler hears it."""

from __future__ import annotations

from support.agent_messages import Room, hello, news, spec
from weft.access.wire.messages import AgentMessage, Goodbye
from weft.model import Cordoned, Exited, NodeLost, Uncordoned

LEAVING = "NodeLeaving"


def goodbye(*, done: bool = False) -> AgentMessage:
    return AgentMessage(goodbye=Goodbye(why="its worker ends", done=done))


def pair() -> Room:
    made = Room()
    made.say(1, hello(spec("n0", 1), instance="a", disk_id="a"))
    made.say(2, hello(spec("n1", 1), instance="b", disk_id="b"))
    return made


def test_an_idle_node_that_leaves_is_given_up_at_once() -> None:
    room = pair()
    assert room.say(1, goodbye(done=True)) == ["1: closed ABORTED"]
    assert [fact.node for fact in room.facts(NodeLost) if isinstance(fact, NodeLost)] == ["n0"]


def test_a_job_starts_elsewhere_as_soon_as_its_end_is_known_and_spends_no_retry() -> None:
    room = pair()
    room.submit()
    room.say(1, news("1/1 started"))
    assert room.say(1, goodbye()) == []
    assert room.say(1, news("1/1 ended node-stopped")) == ["1: confirm 1/1", "2: start 1/2 on [0]"]
    assert room.rig.job("1").failures == 0
    assert room.say(1, goodbye(done=True)) == ["1: closed ABORTED"]


def test_a_node_with_a_run_in_the_state_is_not_given_up_whatever_its_agent_says() -> None:
    room = pair()
    room.submit()
    assert room.say(1, goodbye(done=True)) == []
    assert not room.facts(NodeLost)
    assert room.say(1, news("1/1 ended never-started")) == ["1: confirm 1/1"]
    assert room.say(1, goodbye(done=True)) == ["1: closed ABORTED"]


def test_the_other_parts_of_a_gang_save_their_work_too() -> None:
    room = pair()
    room.submit(gpus=2)
    room.say(1, news("1/1 started"))
    room.say(2, news("1/1 started"))
    assert room.say(1, goodbye()) == ["2: stop 1/1 node-stopped"]
    room.say(1, news("1/1 ended node-stopped"))
    room.say(2, news("1/1 ended node-stopped"))
    (fact,) = (fact for fact in room.facts(Exited) if isinstance(fact, Exited))
    assert (fact.how, fact.why) == ("lost", "node-stopped")


def test_a_node_that_comes_back_to_stay_is_opened() -> None:
    room = pair()
    room.say(1, goodbye(done=True))
    room.restart()
    room.say(3, hello(spec("n0", 1), instance="c", disk_id="a"))
    found = [fact for fact in room.facts(Cordoned, Uncordoned) if getattr(fact, "why", "") == LEAVING]
    assert [type(fact) for fact in found] == [Cordoned, Uncordoned]
    room.submit()
    room.submit("2")
    assert {room.rig.job(name).slots[0][0] for name in "12"} == {"n0", "n1"}
