"""`python -m benchmarks.fleet PORT AGENTS GPUS DIR`: many agents in one process, for the benchmark `agents`.

The stream, the state machine, folders and leases are those of `weft worker`. Only the process engine differs: its runs
end as soon as they have started.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import grpc.aio

from weft.access.endpoints import credentials
from weft.access.endpoints.addresses import Address
from weft.model import Gpu, JobId, Node
from weft.node.agent.connection import SchedulerChannel
from weft.node.agent.runtime import NodeSetup
from weft.node.agent.state_dir import AgentDir
from weft.node.agent.worker import Worker
from weft.node.agent.worker_event import WorkerEvent
from weft.node.engine.events import Report, RunExited, RunStarted
from weft.node.engine.gpu.discovery import Machine
from weft.node.engine.gpu.nvml import Device
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.messages import node_spec
from weft.node.engine.shim.process_id import Identity
from weft.node.engine.weave_spec import WeaveSpec

STARTING = 50
"""Agents that connect at the same moment: they share one core here, which real ones do not."""
NO_PROCESS = Identity("", 1, 1)


class InstantEngine:
    """An engine whose runs end at once."""

    def __init__(self, report: Callable[[Report], None]) -> None:
        self._report = report

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def begin_node_stop(self, *, leaving: bool = False) -> None: ...

    def start(self, spec: LaunchSpec) -> None:
        asyncio.get_running_loop().call_soon(self._run, spec.job, spec.run)

    def _run(self, job: JobId, run: int) -> None:
        now = time.time()
        self._report(RunStarted(now, job, run, NO_PROCESS, NO_PROCESS))
        self._report(RunExited(now, job, run, code=0, started_at=now))

    def limits(self) -> str:
        return ""

    def suspend(self, job: JobId, run: int, suspended: bool) -> bool:  # noqa: ARG002
        return False

    def reweave(self, job: JobId, run: int, weave: WeaveSpec | None) -> bool:  # noqa: ARG002
        return False

    def stop(self, job: JobId, run: int, why: str, grace_s: float | None = None) -> bool:  # noqa: ARG002
        return False

    async def adopt(self, runs: Iterable[tuple[JobId, int]]) -> None:
        for job, run in runs:
            self._report(RunExited(time.time(), job, run, why="never-started"))


def make_worker(name: str, gpus: int, where: Address, home: Path) -> Worker:
    def dial() -> SchedulerChannel:
        found = credentials.find_credentials(where, "worker")
        return SchedulerChannel(credentials.open_channel(where, found, grpc.aio), found.metadata())

    folder = AgentDir(home / name, home / name / "r")
    folder.make()
    devices = tuple(Device(at, "", "A100", 40960) for at in range(gpus))
    machine = Machine(Node(name, (Gpu("A100", 40960),) * gpus, cpus=64, ram_mb=1 << 19), devices, "declared")
    return Worker(
        machine, node_spec(machine, "localhost", 0), folder, dial, setup=NodeSetup(engine=InstantEngine),
        on_event=report,
    )  # fmt: skip


_reported = set[str]()


def report(event: WorkerEvent) -> None:
    """Print each reason for which agents are disconnected once."""
    if event.kind in ("disconnected", "refused") and event.reason not in _reported:
        _reported.add(event.reason)
        print(f"an agent is {event.kind}: {event.reason}", file=sys.stderr)


async def serve(port: int, agents: int, gpus: int, home: Path) -> None:
    workers = [make_worker(f"a{at}", gpus, Address("localhost", port), home) for at in range(agents)]
    for worker in workers:
        await worker.open()
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    serving = []
    for at in range(0, len(workers), STARTING):
        starting = workers[at : at + STARTING]
        serving += [asyncio.ensure_future(worker.serve()) for worker in starting]
        while not all(worker.agent.registered for worker in starting) and not stopping.is_set():
            await asyncio.sleep(0.02)
    await stopping.wait()
    for worker in workers:
        worker.stop()
    await asyncio.gather(*serving, return_exceptions=True)
    for worker in workers:
        await worker.close()


if __name__ == "__main__":
    _, max_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max_files, max_files))
    os.umask(0o077)
    port, agents, gpus, home = sys.argv[1:]
    asyncio.run(serve(int(port), int(agents), int(gpus), Path(home)))
