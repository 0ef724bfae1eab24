"""The scheduler's end of an agent's stream, in a test's own hands: a real server on loopback, told what to say."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from support.running.process_engine import until
from weft.access.wire.messages import (
    AgentMessage,
    BlobName,
    BlobPart,
    Confirm,
    HeartbeatReply,
    Hello,
    RunNews,
    SchedulerMessage,
    StartRun,
    StopRun,
    Variable,
    Welcome,
)
from weft.access.wire.protocol import PROTOCOL
from weft.access.wire.service import OPTIONS
from weft.node.agent.connection import SchedulerChannel
from weft.node.agent.node_status import describe_machine
from weft.node.agent.state_dir import AgentDir
from weft.node.agent.worker import Worker, create_worker
from weft.node.agent.worker_event import WorkerEvent
from weft.node.engine.gpu.discovery import DeclaredGpus, discover
from weft.node.engine.gpu.nvml import NoDriver, Nvml
from weft.node.engine.messages import node_spec
from weft.server.rpc.handlers import handler

PATH = Variable(name="PATH", value=os.environ.get("PATH", "/usr/bin:/bin"))
PORT_OPTIONS = [*OPTIONS]


@dataclass
class Head:
    """Welcome every agent and answer heartbeats; confirm ends where `confirms`."""

    lease_s: float = 60.0
    heartbeat_s: float = 0.2
    confirms: bool = True
    answers: bool = True
    cluster: str = "c"
    refusal: tuple[grpc.StatusCode, str] | None = None
    heard: list[AgentMessage] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    epoch: int = 0
    port: int = 0
    _out: asyncio.Queue[SchedulerMessage | None] = field(default_factory=asyncio.Queue)
    _server: Any = None

    async def open(self) -> None:
        self._server = grpc.aio.server(options=PORT_OPTIONS)
        methods: dict[str, Callable[..., Any]] = {"Attach": self._attach, "Get": self._get, "Put": self._put}
        for service in ("Agents", "Blobs"):
            self._server.add_generic_rpc_handlers((handler(methods.__getitem__, service),))
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def close(self) -> None:
        await self._server.stop(grace=None)

    async def cut(self) -> None:
        """The scheduler dies and comes back at the same port."""
        await self.close()
        await self.open()

    def say(self, **message: Any) -> None:
        self._out.put_nowait(SchedulerMessage(**message))

    def start(self, *command: str, job: str = "1", run: int = 1, **more: Any) -> None:
        env = [PATH, *(Variable(name=name, value=value) for name, value in more.pop("env", {}).items())]
        order = StartRun(epoch=self.epoch, job=job, run=run, command=command, env=env, **more)
        self.say(start=order)

    def stop(self, job: str = "1", run: int = 1, why: str = "cancelled", **more: Any) -> None:
        self.say(stop=StopRun(epoch=self.epoch, job=job, run=run, why=why, **more))

    def blob(self, content: bytes) -> str:
        name = hashlib.sha256(content).hexdigest()
        self.blobs[name] = content
        return name

    # ---- what was heard

    def hellos(self) -> list[Hello]:
        return [message.hello for message in self.heard if message.HasField("hello")]

    def news(self, job: str = "1", run: int = 1) -> list[RunNews]:
        return [m.news for m in self.heard if m.HasField("news") and (m.news.job, m.news.run) == (job, run)]

    def all(self, kind: str) -> list[Any]:
        return [getattr(message, kind) for message in self.heard if message.WhichOneof("is") == kind]

    async def welcomed(self, times: int = 1) -> None:
        await until(lambda: self.epoch >= times)

    async def started(self, job: str = "1", run: int = 1) -> None:
        await until(lambda: any(n.phase >= RunNews.STARTED for n in self.news(job, run)))

    async def ended(self, job: str = "1", run: int = 1) -> RunNews:
        await until(lambda: any(n.phase == RunNews.ENDED for n in self.news(job, run)))
        return next(n for n in self.news(job, run) if n.phase == RunNews.ENDED)

    # ---- the stream

    async def _attach(self, requests: AsyncIterator[AgentMessage], context: Any) -> None:
        if self.refusal is not None:
            await context.abort(*self.refusal)
        self._out = asyncio.Queue()
        reading = asyncio.ensure_future(self._read(requests, self._out))
        try:
            while (message := await self._out.get()) is not None:
                await context.write(message)
        finally:
            reading.cancel()

    async def _read(self, requests: AsyncIterator[AgentMessage], out: asyncio.Queue[SchedulerMessage | None]) -> None:
        async for message in requests:
            self.heard.append(message)
            if message.HasField("hello"):
                self.epoch += 1
                out.put_nowait(SchedulerMessage(welcome=Welcome(
                    protocol=PROTOCOL, epoch=self.epoch, lease_s=self.lease_s, heartbeat_s=self.heartbeat_s,
                    at=message.hello.at, cluster=self.cluster,
                )))  # fmt: skip
            elif message.HasField("heartbeat") and self.answers:
                out.put_nowait(
                    SchedulerMessage(heartbeat=HeartbeatReply(epoch=message.heartbeat.epoch, at=message.heartbeat.at))
                )
            elif message.HasField("news") and message.news.phase == RunNews.ENDED and self.confirms:
                out.put_nowait(SchedulerMessage(confirm=Confirm(job=message.news.job, run=message.news.run)))
            elif message.HasField("goodbye") and message.goodbye.done:
                break
        out.put_nowait(None)

    async def _get(self, name: BlobName, context: Any) -> AsyncIterator[BlobPart]:
        if name.sha256 not in self.blobs:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such blob")
        content = self.blobs[name.sha256]
        for at in range(0, len(content), 1000):
            yield BlobPart(bytes=content[at : at + 1000])

    async def _put(self, parts: AsyncIterator[BlobPart], _context: Any) -> BlobName:
        return BlobName(sha256=self.blob(b"".join([part.bytes async for part in parts])))


@dataclass
class Site:
    """Where workers of a test keep their things, and how they reach the head."""

    root: Path
    head: Head
    notes: list[WorkerEvent] = field(default_factory=list)

    def folder(self, name: str = "n1") -> AgentDir:
        made = AgentDir(self.root / name, self.root / f"{name}-run")
        made.make()
        return made

    def dial(self) -> SchedulerChannel:
        return SchedulerChannel(grpc.aio.insecure_channel(f"127.0.0.1:{self.head.port}", options=PORT_OPTIONS))

    def worker(self, name: str = "n1", gpus: int = 2, nvml: Nvml | NoDriver | None = None) -> Worker:
        folder = self.folder(name)
        found = nvml or NoDriver("none")
        declared = DeclaredGpus(tuple(range(gpus))) if nvml is None else None
        machine = describe_machine(discover(name, found, declared), folder)
        return create_worker(
            machine, found, node_spec(machine, "127.0.0.1", 0), folder, self.dial, on_event=self.notes.append
        )

    @asynccontextmanager
    async def working(self, worker: Worker) -> AsyncIterator[Worker]:
        """Open and connected until the end; its runs are left as they are."""
        await worker.open()
        serving = asyncio.ensure_future(worker.serve())
        try:
            yield worker
        finally:
            worker.detach()
            await asyncio.wait_for(serving, 20)
            await worker.close()


@asynccontextmanager
async def head(root: Path, **settings: Any) -> AsyncIterator[Site]:
    """At the end, the lease kills all runs: it is no longer extended."""
    made = Site(root, Head(**settings))
    await made.head.open()
    try:
        yield made
    finally:
        await made.head.close()


PYTHON = sys.executable
