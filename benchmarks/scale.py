"""The limits of one server: 1,000 agents, 100,000 queued jobs, and a restart with both.

`docs/explanation/scale.md` says what the figures mean for larger clusters.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.agents import GPUS_PER_AGENT, connected, measure_idle, start, start_server
from benchmarks.figure import Figure
from benchmarks.memory import pss_mb
from benchmarks.scheduler import cpu_s
from weft.access.client import Client
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import is_listening
from weft.access.wire.messages import JobSpec, SubmitRequest
from weft.views.answers.operations import PAUSE

AGENTS: Final = 1000
JOBS: Final = 100_000
LEASE_S: Final = 600.0
"""The default of `weft server`."""


def figures() -> Iterator[Figure]:
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory(prefix="weft-b-")))
        server, port = start_server(stack, home, LEASE_S)
        began = time.perf_counter()
        start(stack, "benchmarks.fleet", str(port), str(AGENTS), str(GPUS_PER_AGENT), str(home))
        client = stack.enter_context(Client(scheduler=f"localhost:{port}"))
        wait_for_agents(client)
        yield Figure(f"{AGENTS:,} agents, all registered after", time.perf_counter() - began, "s", 60.0)
        yield Figure("  the scheduler", 1e3 * cpu_s(server) / AGENTS, "CPU ms/agent")
        yield Figure("  memory of the scheduler", pss_mb(server), "MB PSS")
        yield from measure_idle(client, server, LEASE_S)
        yield from _measure_queue(client, server)
        yield from _measure_restart(stack, client, server, port)


def wait_for_agents(client: Client) -> None:
    while connected(client) < AGENTS:
        time.sleep(0.5)


def _measure_queue(client: Client, server: int) -> Iterator[Figure]:
    client.operate(PAUSE)
    before, cpu, wall = pss_mb(server), cpu_s(server), time.perf_counter()
    jobs = [JobSpec(name=f"j{number}", command=["true"], gpus=1) for number in range(JOBS)]
    client.submit(SubmitRequest(jobs=jobs, chdir="/"))
    yield Figure(f"{JOBS:,} jobs in one request, queued after", time.perf_counter() - wall, "s")
    yield Figure("  the scheduler", 1e6 * (cpu_s(server) - cpu) / JOBS, "CPU us/job")
    yield Figure("  memory of the scheduler", (pss_mb(server) - before) / JOBS * 1024, "KB PSS/job")
    yield from measure_idle(client, server, LEASE_S)


def _measure_restart(stack: ExitStack, client: Client, server: int, port: int) -> Iterator[Figure]:
    """Kill the scheduler; another one reads its journal, and all agents come back."""
    os.kill(server, signal.SIGKILL)
    os.waitpid(server, 0)
    wall = time.perf_counter()
    words = ("server", "--port", str(port), "--lease", str(LEASE_S), "--policy", "fifo")
    server = start(stack, "weft", *words)
    while not is_listening(Address("localhost", port)):
        time.sleep(0.05)
    yield Figure(f"restart with {JOBS:,} jobs", cpu_s(server), "CPU s", 10.0)
    wait_for_agents(client)
    yield Figure(f"  all {AGENTS:,} agents back after", time.perf_counter() - wall, "s", 60.0)
    assert client.queue(limit=1).waiting == JOBS
