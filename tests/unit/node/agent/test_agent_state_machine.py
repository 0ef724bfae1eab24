"""The agent's end of the stream: messages, reports and the time in, `==` on what is to be done."""

from __future__ import annotations

from math import inf, nan

import pytest

from support.agent_messages import spec
from weft.access.wire.messages import (
    Confirm,
    GpuBlock,
    GpuMemory,
    HeartbeatReply,
    NodeStatus,
    RunNews,
    SchedulerMessage,
    StartRun,
    StopRun,
    Welcome,
)
from weft.node.agent.actions import Action, Confirmed, Disconnect, Joined, Lease, LeaveIn, Reconcile, Send, Stop
from weft.node.agent.state_machine import Agent
from weft.node.engine.events import RunExited, RunStarted
from weft.node.engine.shim.process_id import Identity

NOBODY = Identity("boot", 1, 1)
LEASE_S, HEARTBEAT_S = 60.0, 5.0


def welcome(at: float, epoch: int = 7, lease_s: float = LEASE_S, heartbeat_s: float = HEARTBEAT_S) -> SchedulerMessage:
    return SchedulerMessage(welcome=Welcome(epoch=epoch, at=at, lease_s=lease_s, heartbeat_s=heartbeat_s, cluster="c"))


def answer(at: float, epoch: int = 7) -> SchedulerMessage:
    return SchedulerMessage(heartbeat=HeartbeatReply(epoch=epoch, at=at))


def order(job: str = "1", run: int = 1, epoch: int = 7) -> SchedulerMessage:
    return SchedulerMessage(start=StartRun(epoch=epoch, job=job, run=run, command=["true"]))


def stop(
    job: str = "1", run: int = 1, epoch: int = 7, why: str = "preempted", grace_s: float | None = None
) -> SchedulerMessage:
    return SchedulerMessage(stop=StopRun(epoch=epoch, job=job, run=run, why=why, grace_s=grace_s))


def confirm(job: str = "1", run: int = 1) -> SchedulerMessage:
    return SchedulerMessage(confirm=Confirm(job=job, run=run))


def said(actions: list[Action]) -> list[str]:
    """In short: what is sent, and the rest as it is named."""
    words = []
    for action in actions:
        if not isinstance(action, Send):
            words.append(type(action).__name__)
            continue
        message = action.message
        kind = message.WhichOneof("is")
        runs = [message.news] if kind == "news" else [*message.hello.runs, *message.heartbeat.runs]
        words.append(" ".join([str(kind), *(f"{r.job}/{r.run}:{RunNews.Phase.Name(r.phase).lower()}" for r in runs)]))
    return words


@pytest.fixture
def agent() -> Agent:
    return Agent(spec(), "i", "h")


@pytest.fixture
def joined(agent: Agent) -> Agent:
    """Registered at 100 s, with a lease until 160 s."""
    agent.connected(100)
    agent.handle(welcome(100), 101)
    return agent


def test_it_says_hello_and_once_welcome_beats_at_once_with_a_lease_from_its_hello(agent: Agent) -> None:
    assert said(agent.connected(100)) == ["hello"]
    actions = agent.handle(welcome(100), 102)
    assert said(actions) == ["Joined", "Lease", "heartbeat"]
    assert actions[:2] == [Joined("c"), Lease(160)]
    assert agent.registered


@pytest.mark.parametrize(
    "message",
    [welcome(99), welcome(nan), welcome(100, epoch=0)],
    ids=["of an earlier hello", "of no hello", "without an epoch"],
)
def test_a_welcome_that_is_not_meant_is_dropped(agent: Agent, message: SchedulerMessage) -> None:
    agent.connected(100)
    assert agent.handle(message, 101) == []
    assert not agent.registered


@pytest.mark.parametrize(("lease_s", "heartbeat_s"), [(0, 0), (-1, 5), (nan, 5), (inf, 5), (5, 60), (60, nan)])
def test_a_scheduler_that_gives_a_lease_without_sense_is_left(agent: Agent, lease_s: float, heartbeat_s: float) -> None:
    agent.connected(100)
    assert said(agent.handle(welcome(100, lease_s=lease_s, heartbeat_s=heartbeat_s), 101)) == ["Disconnect"]


def test_it_beats_while_it_is_answered_and_leaves_when_it_is_not(joined: Agent) -> None:
    assert joined.next_tick_at() == 106
    assert joined.tick(105.9) == []
    assert said(joined.tick(106)) == ["heartbeat"]
    assert joined.handle(answer(106), 107) == [Lease(166)]
    for now in (111, 116, 121):
        assert said(joined.tick(now)) == ["heartbeat"]
    assert joined.tick(122) == [Disconnect("the scheduler no longer answers")]
    assert joined.tick(130) == []
    assert joined.next_tick_at() is None


def test_it_leaves_when_its_hello_is_not_answered(agent: Agent) -> None:
    agent.connected(100)
    assert agent.tick(109.9) == []
    assert agent.tick(110) == [Disconnect("the scheduler did not answer")]


@pytest.mark.parametrize("at", [90, 200, nan, inf, -inf])
def test_an_answer_to_a_beat_that_it_did_not_send_prolongs_nothing(joined: Agent, at: float) -> None:
    assert joined.handle(answer(at), 110) == []
    assert joined.lease_until == 160


def test_the_lease_counts_from_when_the_beat_was_sent_and_is_written_in_steps(joined: Agent) -> None:
    assert joined.handle(answer(102), 110) == []
    assert joined.lease_until == 162
    assert joined.handle(answer(103), 150) == [Lease(163)]
    assert joined.handle(answer(130, epoch=6), 151) == []


def test_the_end_of_the_allocation_counts_from_when_the_beat_was_sent(joined: Agent) -> None:
    reply = answer(102)
    reply.heartbeat.leaves_in_s = 600
    assert joined.handle(reply, 110) == [LeaveIn(592)]
    reply.heartbeat.epoch = 6
    assert joined.handle(reply, 111) == [], "of another registration"


def test_an_order_is_carried_out_once(joined: Agent) -> None:
    assert said(joined.handle(order(), 102)) == ["Start"]
    assert said(joined.handle(order(), 102)) == ["news 1/1:ordered"]
    assert said(joined.report(RunStarted(0, "1", 1, NOBODY, NOBODY), 103)) == ["news 1/1:started"]
    assert said(joined.handle(order(), 104)) == ["news 1/1:started"]


@pytest.mark.parametrize(
    ("message", "now"),
    [(order(epoch=6), 102), (order(epoch=0), 102), (order(), 160), (order("../x"), 102), (order(run=0), 102)],
    ids=["another registration", "none", "no lease", "no plain name", "no run"],
)
def test_an_order_that_may_have_been_given_up_is_dropped(joined: Agent, message: SchedulerMessage, now: float) -> None:
    assert joined.handle(message, now) == []
    assert joined.known == ()


def test_an_order_before_it_is_registered_is_dropped(agent: Agent) -> None:
    agent.connected(100)
    assert agent.handle(order(epoch=0), 101) == []
    assert agent.handle(order(), 101) == []


def test_a_run_is_stopped_as_it_is_said(joined: Agent) -> None:
    joined.handle(order(), 102)
    assert joined.handle(stop(), 103) == [Stop("1", 1, "preempted", None)]
    assert joined.handle(stop(why="fenced", grace_s=0), 103) == [Stop("1", 1, "fenced", 0)]
    for senseless in (-1.0, nan, inf):
        assert joined.handle(stop(grace_s=senseless), 103) == [Stop("1", 1, "preempted", None)]
    assert joined.handle(stop(epoch=6), 103) == []


def test_a_stop_of_a_run_that_is_not_known_puts_up_a_fence(joined: Agent) -> None:
    assert joined.handle(stop("9", 2), 103) == [Reconcile("9", 2)]
    assert said(joined.handle(order("9", 2), 104)) == ["news 9/2:ordered"]
    assert said(joined.report(RunExited(0, "9", 2, why="never-started"), 105)) == ["news 9/2:ended"]
    assert joined.handle(stop("a/b", 1), 106) == []


def test_whoever_only_asks_is_answered(joined: Agent) -> None:
    joined.handle(order(), 102)
    joined.report(RunStarted(0, "1", 1, NOBODY, NOBODY), 103)
    assert said(joined.handle(stop(why="asked"), 104)) == ["news 1/1:started"]
    assert joined.handle(stop("2", why="asked"), 104) == [Reconcile("2", 1)]


def test_an_end_is_said_with_every_beat_until_it_is_confirmed(joined: Agent) -> None:
    joined.handle(order(), 102)
    assert joined.handle(confirm(), 102) == []
    assert said(joined.report(RunExited(0, "1", 1, code=3), 103)) == ["news 1/1:ended"]
    assert said(joined.report(RunStarted(0, "1", 1, NOBODY, NOBODY), 103)) == ["news 1/1:ended"]
    assert said(joined.tick(106)) == ["heartbeat 1/1:ended"]
    assert said(joined.handle(stop(), 107)) == ["news 1/1:ended"]
    assert joined.handle(confirm(), 108) == [Confirmed("1", 1)]
    assert joined.handle(confirm(), 108) == []
    assert said(joined.tick(112)) == ["heartbeat"]


def test_what_happens_while_it_is_cut_off_is_said_when_it_is_back(joined: Agent) -> None:
    joined.handle(order(), 102)
    assert joined.disconnected(103) == []
    assert joined.report(RunExited(0, "1", 1, code=0), 104) == []
    assert said(joined.connected(110)) == ["hello 1/1:ended"]
    assert joined.handle(order("2"), 111) == []
    assert said(joined.handle(welcome(110, epoch=8), 112)) == ["Lease", "heartbeat 1/1:ended"]


def test_an_end_follows_the_reports_that_a_scheduler_may_not_know(joined: Agent) -> None:
    for job in ("1", "2"):
        joined.handle(order(job), 101)
    joined.disconnected(103)
    for job in ("1", "2"):
        joined.report(RunExited(104.0, job, 1, code=0), 104)
    assert said(joined.connected(110, {("1", 1)})) == ["hello 1/1:started 2/1:ended"]
    assert said(joined.handle(welcome(110, epoch=8), 111)) == ["Lease", "heartbeat 1/1:ended 2/1:ended"]


def test_runs_that_outlived_their_lease_are_killed_before_it_is_renewed(joined: Agent) -> None:
    joined.handle(order(), 102)
    joined.handle(order("2"), 102)
    joined.report(RunExited(0, "2", 1, code=0), 104)
    joined.disconnected(103)
    joined.connected(200)
    actions = joined.handle(welcome(200, epoch=8), 201)
    assert actions[:2] == [Stop("1", 1, "lease-ended", 0.0), Lease(260)]


def test_an_agent_started_anew_knows_its_runs_and_its_lease() -> None:
    agent = Agent(spec(), "i2", "h", cluster="c", lease_until=150, runs=[("1", 1)])
    assert said(agent.connected(100)) == ["hello 1/1:ordered"]
    assert said(agent.handle(welcome(100), 101)) == ["Lease", "heartbeat 1/1:ordered"]
    assert said(agent.report(RunStarted(0, "1", 1, NOBODY, NOBODY), 102)) == ["news 1/1:started"]


def test_blocked_gpus_are_said_when_that_changes_and_with_every_beat(joined: Agent) -> None:
    block = GpuBlock(gpu=1, why="DirtyGpu")
    assert said(joined.report_gpus([block])) == ["gpus"]
    assert joined.report_gpus([block]) == []
    assert said(joined.report_gpus([block], [GpuMemory(job="1", run=1, memory_mb=3)])) == ["gpus"]
    joined.status = NodeStatus(load=2.0)
    (heartbeat,) = joined.tick(106)
    assert isinstance(heartbeat, Send)
    assert list(heartbeat.message.heartbeat.blocks) == [block]
    assert heartbeat.message.heartbeat.status.load == 2.0
    joined.disconnected(107)
    assert joined.report_gpus([]) == []
