"""Messages that make no sense: each is refused, in words that say what to do."""

from __future__ import annotations

from math import inf, nan

import pytest

from support.agent_messages import Room, hello, spec
from weft.access.wire.messages import (
    AgentMessage,
    GpuBlock,
    GpuMemory,
    GpuNews,
    GpuReading,
    GpuShare,
    GpuSpec,
    Heartbeat,
    NodeStatus,
    RunEnd,
    RunNews,
    Variable,
)
from weft.server.nodes.validation import find_problem


def ended(**end: object) -> AgentMessage:
    return AgentMessage(news=RunNews(job="1", run=1, phase=RunNews.ENDED, end=RunEnd(**end)))  # type: ignore[arg-type]


def heartbeat(**rest: object) -> AgentMessage:
    return AgentMessage(heartbeat=Heartbeat(**{"at": 1.0, **rest}))  # type: ignore[arg-type]


def node_with(*gpus: GpuSpec) -> AgentMessage:
    made = spec(gpus=0)
    made.gpus.extend(gpus)
    return hello(made)


SENSELESS = {
    "no kind": AgentMessage(),
    "no name": hello(spec("")),
    "a path for a name": hello(spec("../up")),
    "a name with a line": hello(spec("n0\n")),
    "a long name": hello(spec("n" * 64)),
    "no instance": hello(instance=""),
    "a long instance": hello(instance="i" * 201),
    "no disk_id": hello(disk_id=""),
    "a long cluster": hello(cluster="c" * 201),
    "a hello at nan": hello(at=nan),
    "a hello at inf": hello(at=inf),
    "too many GPUs": hello(spec(gpus=1025)),
    "a GPU with absurd memory": node_with(GpuSpec(memory_mb=1 << 62)),
    "a long model": node_with(GpuSpec(model="m" * 201)),
    "a long uuid": node_with(GpuSpec(uuid="u" * 201)),
    "one index twice": node_with(GpuSpec(index=3), GpuSpec(index=3)),
    "absurd CPUs": hello(spec(cpus=1 << 31)),
    "absurd RAM": hello(spec(ram_mb=1 << 63)),
    "a port too far": hello(spec(port=70_000)),
    "a long address": hello(spec(address="a" * 201)),
    "a label without a name": hello(spec(labels=[Variable(value="x")])),
    "too many labels": hello(spec(labels=[Variable(name=f"l{at}") for at in range(101)])),
    "a job that is a path": AgentMessage(news=RunNews(job="a/b", run=1)),
    "a job without a name": AgentMessage(news=RunNews(run=1)),
    "a long job": AgentMessage(news=RunNews(job="j" * 300, run=1)),
    "run 0": AgentMessage(news=RunNews(job="1", run=0)),
    "an absurd run": heartbeat(runs=[RunNews(job="1", run=1 << 31)]),
    "too many runs": heartbeat(runs=[RunNews(job="1", run=1)] * 20_001),
    "a heartbeat at nan": heartbeat(at=nan),
    "a negative load": heartbeat(status=NodeStatus(load=-1.0)),
    "a load of inf": heartbeat(status=NodeStatus(load=inf)),
    "absurd RAM in use": heartbeat(status=NodeStatus(ram_used_mb=1 << 63)),
    "a reading of no GPU": heartbeat(status=NodeStatus(readings=[GpuReading(gpu=5000)])),
    "a negative utilisation": heartbeat(status=NodeStatus(readings=[GpuReading(utilisation=-0.5)])),
    "a utilisation of nan": heartbeat(status=NodeStatus(readings=[GpuReading(utilisation=nan)])),
    "absurd memory in use": heartbeat(status=NodeStatus(readings=[GpuReading(used_mb=1 << 63)])),
    "a share of no job": heartbeat(status=NodeStatus(shares=[GpuShare(job="a/b")])),
    "a share with a long text": heartbeat(status=NodeStatus(shares=[GpuShare(job="1", kind="k" * 501)])),
    "a share with many texts": heartbeat(status=NodeStatus(shares=[GpuShare(job="1", enforced=["x"] * 10)])),
    "too many shares": heartbeat(status=NodeStatus(shares=[GpuShare(job="1")] * 8193)),
    "a block of no GPU": AgentMessage(gpus=GpuNews(blocks=[GpuBlock(gpu=1 << 31, why="DirtyGpu")])),
    "a block without a reason": heartbeat(blocks=[GpuBlock(gpu=0)]),
    "a long reason": heartbeat(blocks=[GpuBlock(gpu=0, why="w" * 501)]),
    "absurd memory taken": heartbeat(blocks=[GpuBlock(gpu=0, why="DirtyGpu", memory_mb=1 << 63)]),
    "an absurd need": AgentMessage(gpus=GpuNews(measured=[GpuMemory(job="1", run=1, memory_mb=1 << 63)])),
    "a need of no run": AgentMessage(gpus=GpuNews(measured=[GpuMemory(job="1", memory_mb=1)])),
    "it ran for less than nothing": ended(ran_s=-1.0),
    "it ran for nan": ended(ran_s=nan),
    "it started at inf": ended(started_at=inf),
    "signal 0": ended(signal=0),
    "signal 200": ended(signal=200),
    "a long why": ended(why="w" * 501),
    "a long detail": ended(detail="d" * 10_001),
    "an absurd size": ended(max_rss_mb=1 << 63),
}


@pytest.mark.parametrize("message", SENSELESS.values(), ids=SENSELESS)
def test_what_makes_no_sense_ends_the_stream_and_changes_nothing(message: AgentMessage) -> None:
    assert find_problem(message)
    room = Room()
    room.say(1, hello())
    room.submit()
    before = list(room.rig.facts)
    assert room.say(1, message) == ["1: closed INVALID_ARGUMENT"]
    assert room.words[-1] == find_problem(message)
    assert [type(fact).__name__ for fact in room.rig.facts[len(before) :]] == ["Cordoned"]
    assert room.say(2, hello(at=2)) == ["2: welcome", "2: start 1/1 on [0]"]


@pytest.mark.parametrize(
    "message",
    [
        hello(), hello(spec("a.b-c_9", gpus=0)), hello(None, "1/1 ended 0", "2_7/3 started"), heartbeat(),
        ended(code=-9), ended(code=255, signal=9, why="oom", detail="x", ran_s=1e9),
        AgentMessage(gpus=GpuNews(blocks=[GpuBlock(gpu=0, why="DirtyGpu", memory_mb=0)])),
        heartbeat(status=NodeStatus(shares=[GpuShare(job="1", kind="training", enforced=["a"], advisory=["b"])])),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_odd_but_may_be_is_taken(message: AgentMessage) -> None:
    assert find_problem(message) == ""
