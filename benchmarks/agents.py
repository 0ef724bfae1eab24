"""A scheduler with many agents: the time until all have registered, the idle cost, and the rates of submits and of
jobs that agents finish at once."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import grpc.aio

from benchmarks.figure import Figure
from benchmarks.scheduler import cpu_s
from weft.access.client import Client
from weft.access.endpoints import credentials
from weft.access.endpoints.addresses import Address
from weft.access.wire.messages import JobSpec, SubmitReply, SubmitRequest
from weft.access.wire.service import call
from weft.views.answers.operations import PAUSE, RESUME

AGENTS: Final = 300
GPUS_PER_AGENT: Final = 8
LEASE_S: Final = 600.0
IDLE_S: Final = 30.0
"""Seconds for which the idle scheduler is measured."""
SUBMITS: Final = 5000
CONCURRENT_SUBMITS: Final = 64


def figures() -> Iterator[Figure]:
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory(prefix="weft-b-")))
        server, port = start_server(stack, home, LEASE_S)
        where = Address("localhost", port)
        began = time.perf_counter()
        fleet = start(stack, "benchmarks.fleet", str(port), str(AGENTS), str(GPUS_PER_AGENT), str(home))
        client = stack.enter_context(Client(scheduler=f"localhost:{port}"))
        while connected(client) < AGENTS:
            time.sleep(0.2)
        yield Figure(f"{AGENTS} agents, all registered after", time.perf_counter() - began, "s", 20.0)
        yield from measure_idle(client, server, LEASE_S)
        client.operate(PAUSE)
        yield from _measure_submits(where, server)
        yield from _measure_dispatch(client, server, fleet)


def measure_idle(client: Client, server: int, lease_s: float) -> Iterator[Figure]:
    """Measure the CPU share of a scheduler with nothing to decide, and its oldest heartbeat."""
    cpu, wall, oldest = cpu_s(server), time.perf_counter(), 0.0
    while time.perf_counter() - wall < IDLE_S:
        time.sleep(2.0)
        oldest = max(oldest, *(node.beat_s or 0.0 for node in client.nodes().nodes))
    share = (cpu_s(server) - cpu) / (time.perf_counter() - wall)
    yield Figure("  idle scheduler, share of a core", 100 * share, "%", 20.0)
    yield Figure("  oldest heartbeat, share of the lease", oldest / lease_s, "", 0.5)


def _measure_submits(where: Address, server: int) -> Iterator[Figure]:
    """Submit each job in a separate request. The scheduler writes it to disk before it answers."""
    cpu, wall = cpu_s(server), time.perf_counter()
    asyncio.run(_submit_all(where))
    took = time.perf_counter() - wall
    yield Figure(f"{SUBMITS:,} submits in a burst", SUBMITS / took, "jobs/s", 1000.0, more_is_better=True)
    yield Figure("  the scheduler", 1e3 * (cpu_s(server) - cpu) / SUBMITS, "CPU ms/job")


async def _submit_all(where: Address) -> None:
    found = credentials.find_credentials(where)
    numbers = iter(range(SUBMITS))
    async with credentials.open_channel(where, found, grpc.aio) as channel:
        submit = call(channel, "Submit")

        async def submit_some() -> None:
            for number in numbers:
                job = JobSpec(name=f"j{number}", command=["true"], gpus=1)
                reply: SubmitReply = await submit(
                    SubmitRequest(jobs=[job], key=f"key-{number}"), metadata=found.metadata()
                )
                assert len(reply.ids) == 1

        await asyncio.gather(*(submit_some() for _ in range(CONCURRENT_SUBMITS)))


def _measure_dispatch(client: Client, server: int, fleet: int) -> Iterator[Figure]:
    """Let the agents run all submitted jobs."""
    cpu, agents_cpu, wall = cpu_s(server), cpu_s(fleet), time.perf_counter()
    client.operate(RESUME)
    while _unfinished(client):
        time.sleep(0.2)
    took = time.perf_counter() - wall
    yield Figure(f"{SUBMITS:,} jobs sent to agents and ended", SUBMITS / took, "jobs/s", 300.0, more_is_better=True)
    yield Figure("  the scheduler", 1e3 * (cpu_s(server) - cpu) / SUBMITS, "CPU ms/job")
    yield Figure("  the agents", 1e3 * (cpu_s(fleet) - agents_cpu) / SUBMITS, "CPU ms/job")
    done = client.history(limit=10_000).jobs
    assert [job.state for job in done] == ["CD"] * SUBMITS, "every job succeeded, once"


def connected(client: Client) -> int:
    return sum(node.state == "connected" for node in client.nodes().nodes)


def _unfinished(client: Client) -> int:
    found = client.queue(limit=1)
    return found.running + found.waiting


# ---- processes


def start_server(stack: ExitStack, home: Path, lease_s: float, *words: str) -> tuple[int, int]:
    before = dict(os.environ)
    os.environ.update(XDG_STATE_HOME=f"{home}/s", XDG_RUNTIME_DIR=f"{home}/r", XDG_CONFIG_HOME=f"{home}/c")
    stack.callback(_restore, before)
    port = free_port()
    pid = start(stack, "weft", "server", "--port", str(port), "--lease", str(lease_s), "--policy", "fifo", *words)
    while not credentials.is_listening(Address("localhost", port)):
        if os.waitpid(pid, os.WNOHANG)[0]:
            raise RuntimeError("the scheduler ended while it started")
        time.sleep(0.05)
    return pid, port


def _restore(before: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(before)


def start(stack: ExitStack, module: str, *words: str) -> int:
    process = subprocess.Popen([sys.executable, "-m", module, *words], stdout=subprocess.DEVNULL)
    stack.callback(_end, process)
    return process.pid


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
