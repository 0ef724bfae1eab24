"""Weaves at the agent's end of the stream: a run changes its partners while it runs, and the heartbeats say so."""

from __future__ import annotations

import pytest

from support.agent_messages import spec
from weft.access.wire.messages import ReweaveRun, RunNews, SchedulerMessage, StageCounters, StartRun, Weave, Welcome
from weft.errors import InputError
from weft.node.agent.actions import Action, Reweave, Send
from weft.node.agent.launch import weave_spec
from weft.node.agent.state_machine import Agent
from weft.node.engine.events import RunExited, RunStarted
from weft.node.engine.shim.process_id import Identity
from weft.node.engine.weaves import WeaveSpec

NOBODY = Identity("boot", 1, 1)
EPOCH = 7


def woven(id: str, place: int = 0) -> Weave:
    return Weave(id=id, place=place, size=2, order="fair", limit_s=5.0)


def reweave(weave: Weave, run: int = 1, epoch: int = EPOCH) -> SchedulerMessage:
    return SchedulerMessage(reweave=ReweaveRun(epoch=epoch, job="1", run=run, weave=weave))


def news_of(actions: list[Action]) -> list[RunNews]:
    return [run for action in actions if isinstance(action, Send) for run in _runs(action)]


def _runs(sent: Send) -> list[RunNews]:
    return [sent.message.news] if sent.message.HasField("news") else list(sent.message.heartbeat.runs)


@pytest.fixture
def agent() -> Agent:
    """Registered, with a run that was ordered as a member of the weave `1-10`."""
    made = Agent(spec(), "i", "h")
    made.connected(100)
    made.handle(SchedulerMessage(welcome=Welcome(epoch=EPOCH, at=100, lease_s=60, heartbeat_s=5, cluster="c")), 101)
    start = StartRun(epoch=EPOCH, job="1", run=1, command=["true"], weave=woven("1-10"))
    made.handle(SchedulerMessage(start=start), 102)
    return made


@pytest.fixture
def started(agent: Agent) -> Agent:
    agent.report(RunStarted(0, "1", 1, NOBODY, NOBODY), 103)
    return agent


def test_a_started_run_reports_the_weave_that_it_was_started_in(agent: Agent) -> None:
    (said,) = news_of(agent.report(RunStarted(0, "1", 1, NOBODY, NOBODY), 103))
    assert (said.phase, said.weave_id) == (RunNews.STARTED, "1-10")


def test_a_run_that_has_started_is_woven_with_others_as_often_as_that_is_said(started: Agent) -> None:
    weave = woven("1-20", place=1)
    assert started.handle(reweave(weave), 104) == [Reweave("1", 1, weave)]
    assert started.handle(reweave(weave), 104) == [Reweave("1", 1, weave)]
    assert [run.weave_id for run in news_of(started.report_weave(("1", 1), "1-20"))] == ["1-20"]


def test_a_run_that_is_woven_no_more_gets_an_empty_weave(started: Agent) -> None:
    assert started.handle(reweave(Weave()), 106) == [Reweave("1", 1, Weave())]


@pytest.mark.parametrize(
    "message",
    [reweave(woven("1-20"), epoch=EPOCH - 1), reweave(woven("1-20"), run=2)],
    ids=["of another registration", "of another run"],
)
def test_a_weave_that_is_not_meant_for_a_run_here_is_dropped(started: Agent, message: SchedulerMessage) -> None:
    assert started.handle(message, 104) == []


def test_a_run_that_has_not_started_or_has_ended_keeps_its_weave(agent: Agent) -> None:
    assert agent.handle(reweave(woven("1-20")), 103) == []
    agent.report(RunExited(0, "1", 1, code=0), 104)
    assert agent.handle(reweave(woven("1-20")), 105) == []


def test_heartbeats_carry_the_counters_of_each_stage(started: Agent) -> None:
    counters = StageCounters(stage="gpu", served_s=2.5, waited_s=1.0, grants=50, passed_over=1)
    started.record_counters(("1", 1), "1-10", [counters])
    (said,) = news_of(started.tick(106))
    assert (said.weave_id, list(said.stages)) == ("1-10", [counters])


def test_a_weave_becomes_what_the_engine_takes() -> None:
    assert weave_spec(woven("1-10", place=1)) == WeaveSpec("1-10", 1, 2, "fair", 5.0)
    assert weave_spec(Weave()) is None


@pytest.mark.parametrize(
    ("weave", "words"),
    [
        (Weave(id="1-1", size=2, order="best", limit_s=1), "unknown order 'best'"),
        (Weave(id="1-1", size=9, order="fair", limit_s=1), "place 0 in a weave of 9"),
        (Weave(id="1-1", size=2, place=2, order="fair", limit_s=1), "place 2 in a weave of 2"),
        (Weave(id="../x", size=2, order="fair", limit_s=1), "invalid weave id '../x'"),
        (Weave(id="1-1", size=2, order="fair", limit_s=-1), "invalid limit of a stage: -1.0 s"),
    ],
)
def test_a_weave_that_no_scheduler_sends_is_refused(weave: Weave, words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        weave_spec(weave)
