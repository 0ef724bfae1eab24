"""Whatever arrives, in whatever order: neither end of a stream raises, and what they know stays sound."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.agent_messages import Room, hello, news, spec
from support.random_messages import messages, texts
from support.state_checks import check, snapshot
from weft.access.wire.messages import AgentMessage, RunEnd, RunNews, SchedulerMessage, Welcome
from weft.model import Cancelled, Job, Submitted
from weft.node.agent.state_machine import Agent
from weft.node.engine.events import RunExited, RunStarted
from weft.node.engine.shim.process_id import Identity

NOBODY = Identity("boot", 1, 1)
BUDGET = settings(max_examples=150, suppress_health_check=list(HealthCheck))
WORDS = texts("1", "2", "3", "n0", "n1", "i", "h", "h1", "c", "", "../x", "DirtyGpu", "never-started", "asked")


def likely() -> st.SearchStrategy[AgentMessage]:
    """Messages of an agent, to get past the authentication."""
    phases = st.sampled_from([RunNews.ORDERED, RunNews.STARTED, RunNews.ENDED])
    run = st.builds(
        lambda job, run, phase, code: AgentMessage(
            news=RunNews(job=job, run=run, phase=phase, end=RunEnd(code=code) if phase == RunNews.ENDED else None)
        ),
        st.sampled_from(["1", "2", "3"]), st.integers(1, 3), phases, st.integers(0, 2),
    )  # fmt: skip
    greeting = st.builds(
        lambda node, gpus, disk_id, instance, at: hello(spec(node, gpus), disk_id=disk_id, instance=instance, at=at),
        st.sampled_from(["n0", "n1"]), st.integers(0, 4), st.sampled_from(["h", "h1"]), st.sampled_from(["i", "j"]),
        st.floats(0, 9),
    )  # fmt: skip
    return st.one_of(run, greeting)


@BUDGET
@given(st.data())
def test_the_roster_takes_anything(data: st.DataObject) -> None:
    room = Room("srtf")
    room.say(1, hello(spec("n0", 4)))
    room.tell(*(Submitted(room.now, Job(str(at), at, declared_s=10.0 * at, retries=1)) for at in (1, 2, 3)))
    room.say(1, news("1/1 started"))
    for _ in range(data.draw(st.integers(1, 12))):
        match data.draw(st.integers(0, 9)):
            case 0:
                room.later(data.draw(st.sampled_from([0.0, 1.0, 16.0, 71.0])))
            case 1:
                room.gone(data.draw(st.integers(0, 4)))
            case 2:
                room.heartbeat(data.draw(st.integers(0, 4)), *data.draw(st.lists(st.sampled_from(
                    ["1/1 started", "2/1 ended 1", "3/1 ordered", "1/2 ended 0", "2/1 ended never-started"]
                ), max_size=3)))  # fmt: skip
            case 3:
                room.tell(Cancelled(room.now, data.draw(st.sampled_from(["1", "2", "3"]))))
            case 4:
                room.restart()
            case 5 | 6 | 7:
                room.say(data.draw(st.integers(0, 4)), data.draw(likely()))
            case _:
                room.say(data.draw(st.integers(0, 4)), data.draw(messages(AgentMessage, WORDS)))
        check(room.rig.state)
    twin = room.rig.fresh()
    twin.replay(room.rig.facts)
    assert snapshot(twin.state) == snapshot(room.rig.state)


@BUDGET
@given(st.data())
def test_an_agent_takes_anything(data: st.DataObject) -> None:
    agent = Agent(spec(), "i", "h", runs=[("1", 1)])
    now, ended = 100.0, set[tuple[str, int]]()
    agent.connected(now)
    agent.handle(SchedulerMessage(welcome=Welcome(epoch=3, at=now, lease_s=60, heartbeat_s=5)), now)
    for _ in range(data.draw(st.integers(1, 15))):
        now += data.draw(st.sampled_from([0.0, 0.5, 5.0, 61.0]))
        before = set(agent.known)
        match data.draw(st.integers(0, 5)):
            case 0:
                agent.connected(now)
            case 1:
                agent.tick(now)
            case 2:
                agent.disconnected(now)
            case 3:
                key = data.draw(st.sampled_from(["1", "2"])), data.draw(st.integers(1, 2))
                agent.report(RunExited(now, *key, code=1), now)
                ended.add(key)
            case 4:
                key = data.draw(st.sampled_from(["1", "2"])), data.draw(st.integers(1, 2))
                agent.report(RunStarted(now, *key, NOBODY, NOBODY), now)
            case _:
                agent.handle(data.draw(messages(SchedulerMessage, WORDS)), now)
        assert before - set(agent.known) <= ended, "a run was forgotten whose end is not confirmed"
        assert agent.lease_until <= now + 30 * 86400
        due = agent.next_tick_at()
        assert due is None or due <= now + 30 * 86400
