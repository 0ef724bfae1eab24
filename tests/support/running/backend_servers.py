"""A server with one backend, in a test's own process: this machine, or an agent over a real port of the loopback."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import grpc.aio

from support.peers.fake_scheduler import PORT_OPTIONS
from support.running.process_engine import until
from weft.access.auth.identity import owner, set_caller
from weft.access.endpoints.paths import Paths
from weft.access.server.settings import Settings
from weft.model import Cancelled, Event, Exited, Job, JobId, Submitted, Task
from weft.node.agent.connection import SchedulerChannel
from weft.node.agent.node_status import describe_machine
from weft.node.agent.state_dir import AgentDir
from weft.node.agent.worker import Worker, create_worker
from weft.node.engine.gpu.discovery import Machine, discover
from weft.node.engine.gpu.nvml import NoDriver, Nvml, open_nvml
from weft.node.engine.messages import node_spec
from weft.scheduling.core.state.job import JobState
from weft.server.api.blobs import Blobs
from weft.server.backends.agents import agent_backend
from weft.server.backends.local import local_backend
from weft.server.controller import Controller

Kind = Literal["local", "agents"]
KINDS: tuple[Kind, ...] = ("local", "agents")
NODE, GPUS, USED_MB = "n1", (3, 5), 321
OVER = ("done", "failed", "cancelled")
PATH = ("PATH", os.environ.get("PATH", "/usr/bin:/bin"))
PATIENCE_S = 60.0
Scene = Callable[["BackendServer"], Awaitable[None]]


class AsOwner(grpc.aio.ServerInterceptor):
    """Lets every call in as the owner of the server."""

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        set_caller(owner())
        return await continuation(details)


@dataclass
class BackendServer:
    """May be closed and opened again: its runs go on."""

    kind: Kind
    root: Path
    controller: Controller = field(init=False)
    _worker: tuple[Worker, asyncio.Future[None]] | None = None
    _server: Any = None

    # ---- opening and closing

    async def open(self) -> None:
        paths = Paths(self.root / "s", self.root / "r")
        paths.make()
        settings = Settings(policy="fifo", idle_s=0.0, lease_s=12.0)
        if self.kind == "local":
            self.controller = Controller(paths, settings, local_backend(*self._machine()))
            await self.controller.open()
        else:
            self.controller = Controller(paths, settings, agent_backend)
            await self.controller.open()
            await self._open_port()
        await until(lambda: any(room.alive for room in self.controller.scheduler.state.resources.nodes))
        await until(lambda: self.kind == "local" or self.controller.inventory.nodes()[NODE].state == "connected")

    async def close(self) -> None:
        if self._worker is not None:
            worker, serving = self._worker
            worker.detach()
            await asyncio.wait_for(serving, 20)
            await worker.close()
        endpoint = self.controller.ports.endpoint
        if endpoint is not None:
            endpoint.disconnect()
            await self._server.stop(grace=None)
        await self.controller.close()

    async def restart(self, meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
        await self.close()
        if meanwhile is not None:
            await meanwhile()
        await self.open()

    def _machine(self) -> tuple[Machine, Nvml | NoDriver]:
        """One with GPUs that a file plays."""
        played = self.root / "gpus.json"
        device = {"model": "RTX3090", "memory_mb": 24576, "used_mb": USED_MB}
        devices = [{"index": index, "uuid": f"GPU-{index}", **device} for index in GPUS]
        played.write_text(json.dumps({"devices": devices}))
        nvml = open_nvml({"WEFT_NVML_FAKE": str(played)})
        return discover(NODE, nvml), nvml

    async def _open_port(self) -> None:
        endpoint = self.controller.ports.endpoint
        assert endpoint is not None
        self._server = grpc.aio.server(options=PORT_OPTIONS, interceptors=(AsOwner(),))
        blobs = Blobs(self.controller.paths.blobs)
        self._server.add_generic_rpc_handlers((endpoint.handler(), blobs.handler()))
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        folder = AgentDir(self.root / NODE, self.root / "w")
        folder.make()
        found, nvml = self._machine()
        machine = describe_machine(found, folder)

        def dial() -> SchedulerChannel:
            return SchedulerChannel(grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=PORT_OPTIONS))

        worker = create_worker(machine, nvml, node_spec(machine, "127.0.0.1", 0), folder, dial)
        await worker.open()
        self._worker = worker, asyncio.ensure_future(worker.serve())

    # ---- jobs

    async def tell(self, *make: Callable[[float], Event]) -> None:
        await self.controller.loop.call(lambda now: ([each(now) for each in make], None))

    async def submit(self, script: str, job: JobId = "1", **task: Any) -> None:
        made = Job(job, command=("/bin/sh", "-c", script), task=Task(env=(PATH,), **task))
        await self.tell(lambda now: Submitted(now, made))

    async def cancel(self, job: JobId = "1") -> None:
        await self.tell(lambda now: Cancelled(now, job))

    def job(self, job: JobId = "1") -> JobState:
        return self.controller.scheduler.state.jobs[job]

    async def started(self, job: JobId = "1") -> None:
        await until(lambda: self.job(job).status == "running", PATIENCE_S)

    async def ended(self, job: JobId = "1") -> Exited:
        """The end of its last run, once the job is over."""
        await until(lambda: self.job(job).status in OVER, PATIENCE_S)
        return self.exits(job)[-1]

    def exits(self, job: JobId = "1") -> list[Exited]:
        return [fact for fact in self.controller.journal.read() if isinstance(fact, Exited) and fact.job == job]

    async def log(self, job: JobId = "1", *, run: int = 1, offset: int = 0, lines: int = 0) -> bytes:
        part = await self.controller.run_logs.read(self.job(job), run, 0, offset, lines)
        return part.text if part is not None else b""

    async def says(self, text: bytes, job: JobId = "1") -> bytes:
        """Until a run has written this."""
        async with asyncio.timeout(PATIENCE_S):
            while text not in (found := await self.log(job)):
                await asyncio.sleep(0.02)
        return found


@asynccontextmanager
async def backend_server(kind: Kind, root: Path) -> AsyncIterator[BackendServer]:
    """At the end, whatever still runs is killed."""
    made = BackendServer(kind, root)
    await made.open()
    try:
        yield made
    finally:
        state = made.controller.scheduler.state
        for job in list(state.active):
            await made.cancel(job)
        await until(lambda: not made.controller.scheduler.state.active, PATIENCE_S)
        await made.close()


def play(kind: Kind, root: Path, scene: Scene) -> None:
    """Play a scene on a server with this backend."""

    async def whole() -> None:
        async with backend_server(kind, root) as server:
            await scene(server)

    asyncio.run(whole())
