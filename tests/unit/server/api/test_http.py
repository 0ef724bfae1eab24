"""The HTTP side of the server, on real sockets: pages, codes, metrics, slow clients, a clean end."""

from __future__ import annotations

import asyncio
import http.client
import signal
import socket
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from weft.access.http import listener
from weft.errors import WeftError
from weft.scheduling.core.state.teams import Teams
from weft.server.http.app import Web
from weft.server.http.prometheus import Metrics
from weft.server.process.cpu_shares import CpuShares
from weft.views.from_state.measured import GpuUsage, NodeConnection, StageUse, WovenRun

Answer = tuple[int, dict[str, str], str]


class Numbers:
    def number(self, node: str, gpu: int) -> int:
        return {"n1": 4}.get(node, 0) + gpu


def controller(policy_error: str = "") -> Any:
    """A scheduler at rest, with one job waiting and one node of two GPUs."""
    node = SimpleNamespace(id='n"1', gpus=(0, 1))
    room = SimpleNamespace(alive=True, node=node, holders=[[], []])
    ada = SimpleNamespace(user="ada")
    jobs = {
        "1": SimpleNamespace(id="1", job=ada, gpus=2, ended_at=None, status="waiting", attained_s=0.0),
        "2": SimpleNamespace(id="2", job=ada, gpus=1, ended_at=3.0, status="done", attained_s=2.0),
    }
    ended = {"2": jobs["2"]}
    resources = SimpleNamespace(nodes=[room])
    active = {name: SimpleNamespace(id=name, weave=("3", "4"), woven_at=1.0) for name in "34"}
    state = SimpleNamespace(
        jobs=jobs, active=active, ended=ended, now=3.0, paused={}, closed={}, resources=resources, teams=Teams()
    )  # fmt: skip
    readings = {
        ("n1", 0): GpuUsage(used_mb=12_345_678, utilisation=30.0),
        ("n1", 1): GpuUsage(used_mb=0),
    }
    nodes = {"n1": NodeConnection("connected"), "n2": NodeConnection("silent")}
    inventory = SimpleNamespace(numbers=Numbers(), readings=lambda: readings, nodes=lambda: nodes)
    shares = CpuShares(0.25)
    shares.account("ann").charge(1.5)
    shares.account("ann").waiting = 2
    return SimpleNamespace(
        shares=shares, scheduler=SimpleNamespace(state=state), journal=range(1_234_567), loop=SimpleNamespace(lag=3),
        inventory=inventory, policy_error=policy_error,
        weaves=SimpleNamespace(
            totals=lambda: {"gpu": StageUse(served_s=9.0, waited_s=2.5, grants=40)},
            of=lambda job: WovenRun(1, "3-1", 0.0, rate=0.7) if job.id == "3" else None,
        ),
    )  # fmt: skip


def served(test: Callable[[Web, Metrics, int], Awaitable[None]], **changes: str) -> None:
    async def serve() -> None:
        scheduler = controller(**changes)
        metrics = Metrics(scheduler)
        web = Web(scheduler, metrics)
        port = await web.open(0)
        try:
            await test(web, metrics, port)
        finally:
            await web.close()

    asyncio.run(serve())


async def page(port: int, path: str, verb: str = "GET", **headers: str) -> Answer:
    def fetch() -> Answer:
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        line.request(verb, path, headers=headers)
        found = line.getresponse()
        body = found.read().decode()
        line.close()
        return found.status, {name.lower(): value for name, value in found.getheaders()}, body

    return await asyncio.to_thread(fetch)


def test_health_ready_and_unknown_pages() -> None:
    async def test(web: Web, _metrics: Metrics, port: int) -> None:
        assert [(await page(port, path))[0] for path in ("/healthz", "/readyz", "/other")] == [200, 503, 404]
        web.ready = True
        assert (await page(port, "/readyz?verbose=1"))[::2] == (200, "ready\n")
        code, headers, body = await page(port, "/metrics", "POST")
        assert (code, body) == (405, "these pages are read-only\n")
        assert "GET" in headers["allow"]
        assert (await page(port, "/other"))[2] == "the pages are /metrics, /healthz and /readyz\n"

    served(test)


def test_a_failed_policy_is_not_ready() -> None:
    async def test(web: Web, _metrics: Metrics, port: int) -> None:
        web.ready = True
        assert (await page(port, "/readyz"))[::2] == (503, "the policy failed: it raised\n")
        assert (await page(port, "/healthz"))[0] == 200

    served(test, policy_error="it raised")


def test_metrics_keep_their_names_labels_and_values() -> None:
    async def test(_web: Web, metrics: Metrics, port: int) -> None:
        metrics.record_step(0.002, 0.3)
        metrics.count_call("/weft.v1.Scheduler/Query")
        metrics.count_call("/weft.v1.Scheduler/Query")
        code, headers, body = await page(port, "/metrics")
        assert (code, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        samples = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(body)
            for sample in family.samples
        }
        assert {str(key[0]) for key in samples if not str(key[0]).endswith("_bucket")} == {
            "weft_jobs", "weft_jobs_ended", "weft_gpus", "weft_gpus_busy", "weft_gpu_utilisation",
            "weft_gpu_memory_used_bytes", "weft_agents", "weft_paused", "weft_journal_facts", "weft_journal_lag",
            "weft_user_cpu_seconds", "weft_user_calls_waiting",
            "weft_loop_longest_turn_seconds", "weft_loop_longest_turn_cpu_seconds",
            "weft_rpc_total", "weft_decision_seconds_count", "weft_decision_seconds_sum",
            "weft_journal_commit_seconds_count", "weft_journal_commit_seconds_sum",
            "weft_jobs_submitted_total", "weft_job_ends_total", "weft_preemptions_total", "weft_user_jobs",
            "weft_weaves", "weft_stage_wait_seconds_count", "weft_stage_wait_seconds_sum",
            "weft_woven_jobs", "weft_woven_pace", "weft_stage_seconds_count", "weft_stage_seconds_sum",
            "weft_nodes_cordoned", "weft_user_gpus_busy", "weft_job_wait_seconds_count", "weft_job_wait_seconds_sum",
        }  # fmt: skip
        assert samples["weft_jobs", ("state", "waiting")] == 1
        assert samples["weft_jobs", ("state", "held")] == 0
        assert samples["weft_jobs_ended", ("outcome", "done")] == 1
        assert samples["weft_job_ends_total", ("outcome", "done")] == 0, "it ended before this server began"
        assert samples["weft_user_jobs", ("state", "waiting"), ("user", "ada")] == 1
        assert samples["weft_gpus", ("node", 'n"1')] == 2
        assert samples["weft_gpu_utilisation", ("gpu", "4"), ("node", "n1")] == 30
        assert samples["weft_gpu_memory_used_bytes", ("gpu", "4"), ("node", "n1")] == 12_345_678 << 20
        assert ("weft_gpu_utilisation", ("gpu", "5"), ("node", "n1")) not in samples
        assert samples["weft_agents", ("state", "silent")] == 1
        assert (samples["weft_weaves", ("size", "2")], samples["weft_weaves", ("size", "3")]) == (1, 0)
        assert samples["weft_stage_wait_seconds_sum", ("stage", "gpu")] == 2.5
        assert samples["weft_stage_wait_seconds_count", ("stage", "gpu")] == 40
        assert samples["weft_stage_seconds_sum", ("stage", "gpu")] == 9
        assert (samples["weft_woven_jobs",], samples["weft_woven_pace",]) == (2, 0.7), "the pace of one is not known"
        assert samples["weft_journal_facts",] == 1_234_567
        assert samples["weft_journal_lag",] == 3
        assert samples["weft_user_cpu_seconds", ("user", "ann")] == 1.5
        assert samples["weft_user_calls_waiting", ("user", "ann")] == 2
        assert samples["weft_rpc_total", ("method", "Scheduler/Query")] == 2
        assert samples["weft_decision_seconds_bucket", ("le", "0.001")] == 0
        assert samples["weft_decision_seconds_bucket", ("le", "0.0025")] == 1
        assert samples["weft_journal_commit_seconds_sum",] == 0.3

    served(test)


@pytest.mark.parametrize(
    ("host", "code"),
    [("127.0.0.1", 200), ("localhost:9100", 200), ("LOCALHOST", 200), ("[::1]:9100", 200), ("10.0.0.7", 200),
     (socket.gethostname(), 200), ("evil.example", 421), ("evil.example:9100", 421), ("localhost.evil.example", 421),
     ("127.0.0.1.evil.example", 421)],
)  # fmt: skip
def test_a_request_for_another_host_is_refused(host: str, code: int) -> None:
    """A page of another site makes the browser of a user here send it: its name resolves to this machine."""

    async def test(_web: Web, _metrics: Metrics, port: int) -> None:
        found, _, body = await page(port, "/metrics", Host=host)
        assert found == code
        assert ("weft_jobs" in body) == (code == 200)
        assert (await page(port, "/healthz", Host=host))[0] == code

    served(test)


def test_two_servers_of_a_process_do_not_share_metrics() -> None:
    first, second = Metrics(controller()), Metrics(controller())
    first.count_call("/weft.v1.Scheduler/Query")
    assert b'weft_rpc_total{method="Scheduler/Query"} 1.0' in first.exposition()
    assert b"weft_rpc_total{" not in second.exposition()


def test_a_port_that_is_taken_is_refused() -> None:
    async def test(_web: Web, metrics: Metrics, port: int) -> None:
        with pytest.raises(WeftError, match=f"--metrics-port {port}: Address already in use\n  choose another port"):
            await Web(controller(), metrics).open(port)

    served(test)


def test_signal_handlers_stay_as_they_are() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    async def test(_web: Web, _metrics: Metrics, port: int) -> None:
        assert (await page(port, "/healthz"))[0] == 200
        during = [signal.getsignal(number) for number in (signal.SIGTERM,)]
        assert during == before[1:]

    served(test)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_connection_without_a_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "REQUEST_TIMEOUT_S", 0.2)

    async def test(_web: Web, _metrics: Metrics, port: int) -> None:
        def dawdle(first: bytes) -> bytes:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
                line.sendall(first)
                said = b""
                while part := line.recv(10_000):
                    said += part
                    if part.endswith(b"alive\n"):
                        line.sendall(b"GET /h")  # of the next request
                return said

        assert await asyncio.to_thread(dawdle, b"") == b""
        assert await asyncio.to_thread(dawdle, b"GET /healthz HTT") == b""
        first = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert (await asyncio.to_thread(dawdle, first)).startswith(b"HTTP/1.1 200")
        assert (await asyncio.to_thread(dawdle, b"nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400")
        assert (await page(port, "/healthz"))[0] == 200

    served(test)


def test_it_ends_in_time_with_connections_open() -> None:
    async def serve() -> float:
        loop = asyncio.get_running_loop()
        web = Web(controller(), Metrics(controller()))
        port = await web.open(0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began = loop.time()
        await web.close()
        took_s = loop.time() - began
        assert await reader.read() == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        return took_s

    assert asyncio.run(serve()) < 3.0
