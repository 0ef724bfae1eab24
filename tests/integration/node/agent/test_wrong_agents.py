"""Agents with a wrong version, name or cluster at a real scheduler: each gets a reason, and the others continue."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from support.agent_messages import hello, spec
from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until
from weft.access.endpoints.credentials import Credentials, open_channel
from weft.access.wire import messages as m
from weft.access.wire.protocol import PROTOCOL
from weft.access.wire.service import MAX_MESSAGE_BYTES, call

Status = grpc.StatusCode
WAIT_S = 60.0


@pytest.fixture(scope="module")
def here() -> Iterator[Cluster]:
    with cluster("n1") as made:
        yield made
        assert made.wait(made.submit("sh", "-c", "exit 4", flags=("--node", "n1"))) == 4
        assert "Traceback" not in (made.folder / "server.log").read_text() + made.out("server")


class Agent:
    """One end of a stream, by hand."""

    def __init__(self, attach: Callable[..., Any]) -> None:
        self._said: queue.SimpleQueue[m.AgentMessage | None] = queue.SimpleQueue()
        self._stream = attach(iter(self._said.get, None), timeout=WAIT_S)

    def say(self, *messages: m.AgentMessage) -> None:
        for message in messages:
            self._said.put(message)

    def hear(self, kind: str) -> Any:
        """The next message of this kind."""
        return next(getattr(each, kind) for each in self._stream if each.WhichOneof("is") == kind)

    def is_told(self) -> tuple[grpc.StatusCode, str]:
        """With which status and words it is sent away."""
        with pytest.raises(grpc.RpcError) as caught:
            for _ in self._stream:
                pass
        error: Any = caught.value
        return error.code(), error.details()

    def is_let_go(self) -> grpc.StatusCode:
        for _ in self._stream:
            pass
        code: grpc.StatusCode = self._stream.code()
        return code

    def leave(self) -> None:
        self._said.put(None)

    def vanish(self) -> None:
        self._stream.cancel()


@contextmanager
def agent(here: Cluster, *said: m.AgentMessage) -> Iterator[Agent]:
    shown = here.credentials()
    with open_channel(here.address, shown, options=[("grpc.max_send_message_length", -1)]) as line:
        attach = call(line, "Attach", "Agents")
        made = Agent(lambda *args, **keys: attach(*args, metadata=shown.metadata(), **keys))
        made.say(*said)
        try:
            yield made
        finally:
            made.leave()
            made.vanish()


def state(here: Cluster, node: str) -> str:
    return str(here.node(node).get("state"))


# ---- hello


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        (hello(protocol=PROTOCOL + 1), Status.FAILED_PRECONDITION, "same version"),
        (hello(protocol=0), Status.FAILED_PRECONDITION, "same version"),
        (hello(spec("../up")), Status.INVALID_ARGUMENT, "--id"),
        (hello(spec("n1")), Status.ALREADY_EXISTS, "--id"),
        (hello(spec("x", 1025)), Status.INVALID_ARGUMENT, "gpus: 1,025 items"),
        (hello(spec("x", ram_mb=2**64 - 1)), Status.INVALID_ARGUMENT, "out of range"),
        (hello(spec("x"), at=float("nan")), Status.INVALID_ARGUMENT, "at: nan"),
        (hello(spec("x"), at=-1e300), Status.INVALID_ARGUMENT, "at: -1e+300"),
        (hello(spec("x"), instance="x" * 201), Status.INVALID_ARGUMENT, "characters"),
        (hello(spec("x"), "1/1 started", cluster="another"), Status.FAILED_PRECONDITION, "another scheduler"),
        (m.AgentMessage(heartbeat=m.Heartbeat(epoch=1)), Status.ABORTED, "Hello"),
        (m.AgentMessage(), Status.INVALID_ARGUMENT, "same version"),
    ],
    ids=str,
)
def test_who_is_not_taken_is_told_why(here: Cluster, said: m.AgentMessage, code: grpc.StatusCode, words: str) -> None:
    with agent(here, said) as stranger:
        found, details = stranger.is_told()
    assert found == code
    assert words in details


def test_a_second_hello_is_answered_once_more_or_refused(here: Cluster) -> None:
    with agent(here, hello(spec("twice"))) as first:
        assert first.hear("welcome").epoch
        first.say(hello(spec("twice")))
        assert first.hear("welcome").epoch  # it came twice
        first.say(hello(spec("twice"), at=2.0))
        assert first.is_told()[0] == Status.FAILED_PRECONDITION


def test_the_same_agent_that_connects_anew_takes_the_place_of_its_old_connection(here: Cluster) -> None:
    with agent(here, hello(spec("anew"))) as old:
        epoch = old.hear("welcome").epoch
        with agent(here, hello(spec("anew"), at=2.0)) as new:
            assert new.hear("welcome").epoch > epoch
            assert old.is_told()[0] == Status.ABORTED


def test_other_gpus_are_taken_if_nothing_runs_on_them(here: Cluster) -> None:
    with agent(here, hello(spec("changing", 2))) as before:
        before.hear("welcome")
        assert here.node("changing")["gpus"] == 2
    until(lambda: state(here, "changing") == "silent")
    with agent(here, hello(spec("changing", 3), instance="j")) as after:
        after.hear("welcome")
        assert here.node("changing")["gpus"] == 3
        job = here.submit("true", flags=("--node", "changing", "--memory", "100"))
        order = after.hear("start")
        assert (order.job, order.run) == (job, 1)
    until(lambda: state(here, "changing") == "silent")
    with agent(here, hello(spec("changing", 1), f"{job}/1 started", instance="k")) as less:
        code, words = less.is_told()
        assert (code, "same GPUs" in words) == (Status.FAILED_PRECONDITION, True)
    with agent(here, hello(spec("changing", 1), f"{job}/1 ended 0", instance="k")) as less:
        assert less.hear("confirm").job == job
        assert here.node("changing")["gpus"] == 1
    assert here.wait(job) == 0


def test_a_wrong_token_or_none_opens_nothing(here: Cluster) -> None:
    for token in ("", "nonsense", "weft.0123456789ab.abc"):
        shown = Credentials(token)
        with open_channel(here.address, shown) as line, pytest.raises(grpc.RpcError) as caught:
            list(call(line, "Attach", "Agents")(iter([hello()]), metadata=shown.metadata(), timeout=WAIT_S))
        error: Any = caught.value
        assert error.code() == Status.UNAUTHENTICATED
        assert "weft auth join" in error.details() or "token" in error.details()


# ---- what comes after it


def test_what_is_too_large_ends_the_stream_and_nothing_else(here: Cluster) -> None:
    runs = [m.RunNews(job="1", run=1)] * 20_001
    with agent(here, hello(spec("large"))) as large:
        epoch = large.hear("welcome").epoch
        large.say(m.AgentMessage(heartbeat=m.Heartbeat(epoch=epoch, at=2.0, runs=runs)))
        code, words = large.is_told()
        assert (code, words[:18]) == (Status.INVALID_ARGUMENT, "runs: 20,001 items")
    with agent(here, hello(spec("large"), at=2.0)) as large:
        large.hear("welcome")
        large.say(m.AgentMessage(tail=m.LogTail(job="1", run=1, text=b"x" * (MAX_MESSAGE_BYTES + 1))))
        assert large.is_told()[0] == Status.RESOURCE_EXHAUSTED
    assert state(here, "n1") == "connected"


def test_whoever_leaves_is_let_go_at_once(here: Cluster) -> None:
    """Also while it is being spoken to: again and again, because it is a matter of moments."""
    for at in range(100):
        with agent(here, hello(spec("brief"), at=float(at))) as brief:
            brief.say(m.AgentMessage(heartbeat=m.Heartbeat(at=1.0)))
            brief.leave()
            assert brief.is_let_go() == Status.OK
    until(lambda: state(here, "brief") == "silent")


def test_agents_that_vanish_leave_nothing_behind(here: Cluster) -> None:
    before = open_files(here)
    for at in range(50):
        with agent(here, hello(spec("gone"), at=float(at))) as gone:
            if at % 2:
                gone.hear("welcome")
            gone.vanish()
    until(lambda: state(here, "gone") == "silent")
    until(lambda: open_files(here) <= before + 2)


def open_files(here: Cluster) -> int:
    return len(list(Path(f"/proc/{here.processes['server'].pid}/fd").iterdir()))
