"""Whatever arrives, in whatever order: neither end of a stream raises, and what they know stays sound."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents import Room, hello, news, spec
from checks import check, snapshot
from weft.agent.machine import Agent
from weft.local.identity import Identity
from weft.local.reports import RunExited, RunStarted
from weft.model import Cancelled, Job, Submitted
from weft.wire.messages import AgentMessage, RunEnd, RunNews, SchedulerMessage, Welcome

NOBODY = Identity("boot", 1, 1)
BUDGET = settings(max_examples=150, suppress_health_check=list(HealthCheck))
TEXTS = st.one_of(
    st.sampled_from(["1", "2", "3", "n0", "n1", "i", "h", "h1", "c", "", "../x", "DirtyGpu", "never-started", "asked"]),
    st.text(max_size=8),
)
FLOATS = st.one_of(st.sampled_from([0.0, 1.0, 2.0, 100.0, -1.0, float("nan"), float("inf")]), st.floats())
Field = FieldDescriptor
INTS = {
    Field.CPPTYPE_UINT32: (0, 2**32 - 1),
    Field.CPPTYPE_UINT64: (0, 2**64 - 1),
    Field.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    Field.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
}


@st.composite
def messages(draw: st.DrawFn, kind: type[Message]) -> Any:
    """Any message of this type: small numbers and known names more often than others, so that something comes of it."""
    made = kind()
    oneof = [field.name for one in kind.DESCRIPTOR.oneofs if one.name == "is" for field in one.fields]
    chosen = draw(st.sampled_from([*oneof, ""])) if oneof else None
    for field in kind.DESCRIPTOR.fields:
        if (chosen is not None and field.name != chosen) or (chosen is None and draw(st.integers(0, 3)) == 0):
            continue
        count = draw(st.integers(0, 3)) if field.is_repeated else 1
        values = [draw(_value(field)) for _ in range(count)]
        if field.is_repeated:
            getattr(made, field.name).extend(values)
        elif field.message_type is not None:
            getattr(made, field.name).CopyFrom(values[0])
        else:
            setattr(made, field.name, values[0])
    return made


def _value(field: Any) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        return messages(GetMessageClass(field.message_type))
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    if field.cpp_type in INTS:
        low, high = INTS[field.cpp_type]
        return st.one_of(st.integers(0, 3), st.integers(low, high))
    if field.cpp_type in (Field.CPPTYPE_DOUBLE, Field.CPPTYPE_FLOAT):
        return FLOATS
    if field.cpp_type == Field.CPPTYPE_BOOL:
        return st.booleans()
    return st.binary(max_size=8) if field.type == Field.TYPE_BYTES else TEXTS


def likely() -> st.SearchStrategy[AgentMessage]:
    """What an agent would say, to get further than the door."""
    phases = st.sampled_from([RunNews.ORDERED, RunNews.STARTED, RunNews.ENDED])
    run = st.builds(
        lambda job, run, phase, code: AgentMessage(
            news=RunNews(job=job, run=run, phase=phase, end=RunEnd(code=code) if phase == RunNews.ENDED else None)
        ),
        st.sampled_from(["1", "2", "3"]), st.integers(1, 3), phases, st.integers(0, 2),
    )  # fmt: skip
    greeting = st.builds(
        lambda node, gpus, home, instance, at: hello(spec(node, gpus), home=home, instance=instance, at=at),
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
                room.beat(data.draw(st.integers(0, 4)), *data.draw(st.lists(st.sampled_from(
                    ["1/1 started", "2/1 ended 1", "3/1 ordered", "1/2 ended 0", "2/1 ended never-started"]
                ), max_size=3)))  # fmt: skip
            case 3:
                room.tell(Cancelled(room.now, data.draw(st.sampled_from(["1", "2", "3"]))))
            case 4:
                room.restart()
            case 5 | 6 | 7:
                room.say(data.draw(st.integers(0, 4)), data.draw(likely()))
            case _:
                room.say(data.draw(st.integers(0, 4)), data.draw(messages(AgentMessage)))
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
    agent.take(SchedulerMessage(welcome=Welcome(epoch=3, at=now, lease_s=60, beat_s=5)), now)
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
                agent.take(data.draw(messages(SchedulerMessage)), now)
        assert before - set(agent.known) <= ended, "a run was forgotten whose end is not confirmed"
        assert agent.lease_until <= now + 30 * 86400
        due = agent.next_at()
        assert due is None or due <= now + 30 * 86400
