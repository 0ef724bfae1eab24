"""Anything at all said to a real scheduler, by clients and by agents: each is answered with a clear status and words,
and the scheduler goes on as if nothing had happened."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.agent_messages import hello, spec
from support.random_messages import bent, messages, texts
from support.running.live_cluster import Cluster, cluster
from weft.access.endpoints.credentials import open_channel
from weft.access.wire import messages as m
from weft.access.wire.service import PREFIX, SERVICES

BUDGET = settings(max_examples=200, suppress_health_check=list(HealthCheck))
Status = grpc.StatusCode
WAIT_S = 60.0
MOST_MB = 300.0
CLEAR = {
    Status.INVALID_ARGUMENT, Status.NOT_FOUND, Status.FAILED_PRECONDITION, Status.PERMISSION_DENIED,
    Status.ALREADY_EXISTS, Status.ABORTED, Status.RESOURCE_EXHAUSTED,
}  # fmt: skip
"""Statuses for a known caller who sends something wrong."""
REFS = ("1", "2", "3", "@", "@~1", "1-3", "1_0", "n1", "f0", "", "..", "../x", "all")
VERBS = (
    "cancel", "hold", "release", "set", "restart", "forget", "queue", "job", "history", "gpus", "nodes", "doctor",
    "drain", "undrain", "cordon", "policy", "interval", "pass", "dump", "resume", "token", "list", "revoke",
)  # fmt: skip
KEYS = ("name", "priority", "gpus", "memory", "time", "after", "gpu_ids", "verb", "id", "what", "user", "role", "ids")
VALUES = ("-1", "1e309", "nan", "0-9%4", "9-0", "#0", "waiting", "running", "fifo", "srtf", "muri-l", "yes", "4G", "1h")
WORDS = texts(*REFS, *VERBS, *KEYS, *VALUES)
CLIENTS = [*SERVICES["Scheduler"], *SERVICES["Blobs"], *SERVICES["Auth"]]
REQUESTS = {name: method.request for methods in SERVICES.values() for name, method in methods.items()}
KINDS = {name: method.kind for methods in SERVICES.values() for name, method in methods.items()}


@pytest.fixture(scope="module")
def here() -> Iterator[Cluster]:
    with cluster(
        "n1", options=("--policy", "fifo", "--min-run", "0", "--lease", "5"), settings={"margin_s": 3}
    ) as made:
        yield made
        check_well(made)


def check_well(here: Cluster) -> None:
    """It serves as ever, and nothing went wrong in it."""
    with here.channel() as call:
        call("Operate")(
            m.OperateRequest(verb="policy", options=[m.Variable(name="policy", value="fifo")]), timeout=WAIT_S
        )
        call("Operate")(
            m.OperateRequest(verb="interval", options=[m.Variable(name="seconds", value="0")]), timeout=WAIT_S
        )
        call("Operate")(m.OperateRequest(verb="resume"), timeout=WAIT_S)
        call("Operate")(m.OperateRequest(verb="undrain", options=[m.Variable(name="gpus", value="n1")]), timeout=WAIT_S)
    here.weft("cancel", "--all", "-y")
    assert here.wait(here.submit("sh", "-c", "exit 4", flags=("--node", "n1"))) == 4
    for text in ((here.folder / "server.log").read_text(), here.out("server")):
        before, _, after = text.partition("Traceback")
        assert not after, f"{before[-500:]}Traceback{after[:3000]}"
    assert here.processes["server"].poll() is None
    assert here.memory_mb() < MOST_MB


def check_clear(error: grpc.RpcError, *more: grpc.StatusCode) -> None:
    code, details = error.code(), error.details() or ""
    assert code in {*CLEAR, *more}, f"{code}: {details}"
    assert len(details) > 10, f"{code} says nothing: {details!r}"


# ---- clients

TRUE = m.JobSpec(command=["true"], gpus=1, memory_mb=[100], retries=1)
RIGHT: dict[str, list[Any]] = {
    "Change": [m.ChangeRequest(verb=verb, jobs=["@"]) for verb in VERBS[:6]],
    "Query": [m.QueryRequest(what=what, limit=9) for what in ("queue", "job", "history", "gpus", "nodes")],
    "Explain": [m.ExplainRequest(job="@")],
    "WhatIf": [m.WhatIfRequest(policy="fifo"), m.WhatIfRequest(add_nodes=[8], cancel=["@"])],
    "Logs": [m.LogsRequest(job="@"), m.LogsRequest(job="@", follow=True, lines=3)],
    "Watch": [m.WatchRequest()],
    "History": [m.HistoryRequest()],
    "Deploy": [m.DeployRequest(description="service: a\nrun: sleep 9\n", file="a.yaml", chdir="/", dry_run=True)],
    "ChangeService": [m.ServiceChange(service="a", verb="scale", max_replicas=1)],
    "Routes": [m.RoutesRequest(address="127.0.0.1:8080", router="r")],
    "ReportLoads": [m.LoadReport(router="r", services=[m.ServiceLoad(service="a", arrivals=3, queued=1)])],
    "Operate": [m.OperateRequest(verb=verb, options=[m.Variable(name="gpus", value="n1")]) for verb in VERBS[11:19]],
    "Put": [m.BlobPart(bytes=b"something")],
    "Get": [m.BlobName(sha256="0" * 64)],
    "Join": [m.JoinRequest(token="weft.0123456789ab.abc", node="f0")],
    "Manage": [m.OperateRequest(verb="list"), m.OperateRequest(verb="revoke")],
}


def requests(name: str) -> st.SearchStrategy[Any]:
    """Some that are nearly right, and some that are anything."""
    if not REQUESTS[name].DESCRIPTOR.fields:
        return st.sampled_from(RIGHT[name])
    if name == "Submit":
        nearly: st.SearchStrategy[Any] = st.builds(
            lambda jobs, key: m.SubmitRequest(jobs=jobs, key=key, chdir="/"),
            st.lists(bent(TRUE, WORDS), min_size=1, max_size=3), texts("", "k"),
        )  # fmt: skip
    else:
        nearly = st.sampled_from(RIGHT[name]).flatmap(lambda right: bent(right, WORDS))
    return st.one_of(nearly, nearly, messages(REQUESTS[name], WORDS))


@BUDGET
@given(data=st.data())
def test_whatever_a_client_asks_is_answered(here: Cluster, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(CLIENTS))
    request = data.draw(requests(name))
    if name == "Operate" and request.verb in ("shutdown", "pause"):
        return
    with here.channel() as call:
        try:
            if KINDS[name] == "upload":
                call(name)(iter([request]), timeout=WAIT_S)
            elif KINDS[name] == "stream":
                _look_into(call(name)(request, timeout=WAIT_S))
            else:
                call(name)(request, timeout=WAIT_S)
        except grpc.RpcError as error:
            check_clear(error)


def _look_into(stream: Any) -> None:
    """A stream may be endless: read a part of it, then close it."""
    threading.Timer(0.2, stream.cancel).start()
    try:
        for _ in stream:
            pass
    except grpc.RpcError:
        if stream.code() != Status.CANCELLED:
            raise


# ---- agents


HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NODES = texts("f0", "f1", "n1", "", "../x", "a b", "x" * 64)


def greetings() -> st.SearchStrategy[m.AgentMessage]:
    """Some that are taken, and some that are nearly right."""
    return st.builds(
        lambda node, gpus, disk_id, instance, at, protocol: hello(
            spec(node, gpus), disk_id=disk_id, instance=instance, at=at, protocol=protocol
        ),
        NODES, st.sampled_from([0, 1, 2, 4, 1025]), texts("h", "h1", ""), texts("i", "j"), st.floats(0, 9),
        st.sampled_from([1, 1, 1, 0, 2, 2**32 - 1]),
    )  # fmt: skip


def talk() -> st.SearchStrategy[m.AgentMessage]:
    run = m.RunNews(job="1", run=1, phase=m.RunNews.ENDED, end=m.RunEnd(code=0, started_at=1.0, ran_s=1.0))
    right = (
        m.AgentMessage(
            heartbeat=m.Heartbeat(
                at=10.0, runs=[run], status=m.NodeStatus(load=1.0, readings=[m.GpuReading(gpu=0, used_mb=1)])
            )
        ),
        m.AgentMessage(news=run),
        m.AgentMessage(gpus=m.GpuNews(blocks=[m.GpuBlock(gpu=0, why="DirtyGpu")])),
        m.AgentMessage(progress=m.Progress(job="1", run=1, json='{"step": 1}')),
        m.AgentMessage(log=m.LogPart(id=1, text=b"x")),
        m.AgentMessage(tail=m.LogTail(job="1", run=1, text=b"x")),
    )
    return st.sampled_from(right).flatmap(_bent_inside)


def _bent_inside(right: m.AgentMessage) -> st.SearchStrategy[m.AgentMessage]:
    kind = right.WhichOneof("is")
    assert kind is not None
    return bent(getattr(right, kind), WORDS).map(lambda made: m.AgentMessage(**{kind: made}))


@BUDGET
@given(said=st.lists(st.one_of(greetings(), talk(), messages(m.AgentMessage, WORDS)), min_size=1, max_size=8))
def test_whatever_an_agent_says_is_answered(here: Cluster, said: list[m.AgentMessage]) -> None:
    """The answers end with a status that gives the reason, or continue until the agent vanishes."""
    with here.channel() as call:
        stream = call("Attach")(iter(said), timeout=WAIT_S)
        try:
            for _ in stream:
                pass
        except grpc.RpcError as error:
            check_clear(error)


@BUDGET
@given(noise=st.one_of(st.binary(max_size=200), st.binary(max_size=100).map(lambda rest: HTTP2 + rest)))
def test_noise_at_the_port_is_not_heard(here: Cluster, noise: bytes) -> None:
    with socket.create_connection(("127.0.0.1", here.port), timeout=WAIT_S) as line, suppress(OSError):
        line.sendall(noise)


@BUDGET
@given(name=st.sampled_from(sorted(REQUESTS)), noise=st.binary(min_size=1, max_size=50))
def test_bytes_that_are_no_message_are_refused(here: Cluster, name: str, noise: bytes) -> None:
    shown = here.credentials()
    service = next(service for service, methods in SERVICES.items() if name in methods)
    with open_channel(here.address, shown) as line:
        method = line.stream_stream(f"/{PREFIX}{service}/{name}")
        try:
            _look_into(method(iter([noise]), metadata=shown.metadata(), timeout=WAIT_S))
        except grpc.RpcError as error:
            check_clear(error)
