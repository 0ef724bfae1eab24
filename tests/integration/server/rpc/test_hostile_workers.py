"""A worker with a valid token that sends valid messages of the worst kind: no other caller waits for it."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from support.agent_messages import hello, spec
from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until
from weft.access.auth.tokens import Tokens
from weft.access.endpoints.credentials import Credentials, open_channel
from weft.access.wire import messages as m
from weft.access.wire.service import call
from weft.server.nodes.log_tails import PREFIX
from weft.server.process.cpu_shares import MAX_STREAMS

MAX_TURN_CPU_S = 0.25
MAX_GROWTH_MB = 100.0
RUNS, SHARES, NEEDS = 20_000, 8192, 100_000
REPORT = json.dumps({"step": 1, "metrics": {f"{'m' * 90}{at}": 1.0 for at in range(1000)}})
TIMEOUT_S = 60.0


class Worker:
    """The stream of a worker. `answered` waits until the server has taken up all messages so far."""

    def __init__(self, server: Cluster, name: str, gpus: int) -> None:
        tokens = Tokens(server.folder)
        token = tokens.invite("worker", "op", expires_s=600.0, by="test", fingerprint="")
        self.token = Credentials(tokens.join(token, name)[0])
        tokens.close()
        self.channel = open_channel(server.address, self.token)
        self._sent: queue.SimpleQueue[m.AgentMessage | None] = queue.SimpleQueue()
        self._replies = self.stream("Attach", "Agents", iter(self._sent.get, None))
        made = hello(spec(name, gpus), disk_id=name)
        made.hello.version, made.hello.at = "1", time.time()
        self.send(made)
        self.epoch = next(self._replies).welcome.epoch

    def stream(self, name: str, service: str, requests: Any) -> Any:
        return call(self.channel, name, service)(requests, metadata=self.token.metadata(), timeout=TIMEOUT_S)

    def send(self, *messages: m.AgentMessage) -> None:
        for message in messages:
            self._sent.put(message)

    def heartbeat(self, **content: Any) -> m.AgentMessage:
        return m.AgentMessage(heartbeat=m.Heartbeat(epoch=self.epoch, at=time.time(), **content))

    def answered(self) -> None:
        last = self.heartbeat()
        self.send(last)
        next(reply for reply in self._replies if reply.WhichOneof("is") == "heartbeat"
             and reply.heartbeat.at == last.heartbeat.at)  # fmt: skip

    def started(self) -> m.StartRun:
        start: m.StartRun = next(reply.start for reply in self._replies if reply.WhichOneof("is") == "start")
        self.send(m.AgentMessage(news=m.RunNews(job=start.job, run=start.run, phase=m.RunNews.STARTED)))
        return start


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with cluster() as made:
        yield made
        for process in made.processes.values():
            process.terminate()


@pytest.fixture(scope="module")
def worker(server: Cluster) -> Worker:
    return Worker(server, "n1", 1)


@pytest.fixture(scope="module")
def start(server: Cluster, worker: Worker) -> m.StartRun:
    server.submit("sleep", "600", flags=("--gpus", "1"))
    return worker.started()


def test_large_messages_take_short_turns(server: Cluster, worker: Worker, start: m.StartRun) -> None:
    idle_mb = server.memory_mb()
    needs = [m.GpuMemory(job=start.job, run=start.run, memory_mb=at % 1000) for at in range(NEEDS)]
    worker.send(
        worker.heartbeat(
            runs=[
                m.RunNews(job=start.job, run=start.run, phase=m.RunNews.STARTED),
                *(m.RunNews(job=str(10**6 + at), run=1, phase=m.RunNews.STARTED) for at in range(RUNS - 1)),
            ],
            status=m.NodeStatus(shares=[m.GpuShare(job=str(at), kind="training") for at in range(SHARES)]),
        ),
        m.AgentMessage(gpus=m.GpuNews(measured=needs)),
        m.AgentMessage(progress=m.Progress(job=start.job, run=start.run, json=REPORT)),
    )
    server.weft("gpus")
    worker.answered()
    assert server.metric("weft_loop_longest_turn_cpu_seconds") <= MAX_TURN_CPU_S
    assert server.job(start.job)["progress"] is None
    until(lambda: server.memory_mb() - idle_mb < MAX_GROWTH_MB)
    assert "Traceback" not in (server.folder / "server.log").read_text()


def test_only_the_nodes_of_a_run_write_the_end_of_its_log(server: Cluster, worker: Worker, start: m.StartRun) -> None:
    other = Worker(server, "n0", 0)
    tail = m.AgentMessage(tail=m.LogTail(job=start.job, run=start.run, text=b"forged"))
    for each in (other, worker):
        each.send(tail)
        each.answered()
    assert [path.name for path in server.folder.rglob(f"{PREFIX}*")] == [f"{PREFIX}n1"]


def test_a_worker_has_a_limited_number_of_streams(server: Cluster) -> None:
    worker = Worker(server, "n2", 0)

    def silent() -> Any:
        return worker.stream("Attach", "Agents", iter(queue.SimpleQueue[m.AgentMessage]().get, None))

    streams = [silent() for _ in range(MAX_STREAMS - 1)]
    with pytest.raises(grpc.RpcError) as caught:
        next(silent())
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    worker.answered()
    for stream in streams:
        stream.cancel()
