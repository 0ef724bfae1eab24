"""A small scheduler of a cluster in a test's own process: the real core and roster, with real agents' streams."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from support.builders import Rig
from support.peers.fake_scheduler import PORT_OPTIONS, Site
from support.running.process_engine import until
from weft.access.wire.messages import AgentMessage, SchedulerMessage
from weft.model import Cancelled, Event, Exited, Job, JobId, NodeJoined, NodeLost, Submitted, Task, Wake
from weft.node.agent.worker import Worker
from weft.server.nodes.outbox import Close, Reply, Send
from weft.server.nodes.registry import NodeRegistry
from weft.server.rpc.handlers import handler

OVER = ("done", "failed", "cancelled")


@dataclass
class Scheduling:
    lease_s: float = 60.0
    heartbeat_s: float = 0.2
    margin_s: float = 10.0
    policy: str = "fifo"
    port: int = 0
    rig: Rig = field(init=False)
    _streams: dict[int, asyncio.Queue[SchedulerMessage | Close]] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _server: Any = None

    def __post_init__(self) -> None:
        self.rig = Rig(self.policy)
        self._rise()

    def _rise(self) -> None:
        self.registry = NodeRegistry(
            self.rig.state,
            self.now(),
            lease_s=self.lease_s,
            heartbeat_s=self.heartbeat_s,
            margin_s=self.margin_s,
            cluster="c",
        )

    def now(self) -> float:
        return time.monotonic()

    async def open(self) -> None:
        self._server = grpc.aio.server(options=PORT_OPTIONS)
        self._server.add_generic_rpc_handlers((handler(lambda _: self._attach, "Agents"),))
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()
        self._ticking = asyncio.ensure_future(self._tick())

    async def close(self) -> None:
        self._ticking.cancel()
        await self._server.stop(grace=None)

    async def die_and_return(self) -> None:
        """Only what was journalled is known afterwards."""
        await self.close()
        self.rig.scheduler = self.rig.fresh()
        self.rig.scheduler.replay(self.rig.facts)
        self._streams.clear()
        self._rise()
        await self.open()

    # ---- what is asked of it

    def submit(self, *command: str, gpus: int = 1, retries: int = 0, **task: Any) -> JobId:
        job = Job(str(next(self._numbers)), gpus, command=command, retries=retries, task=Task(**task))
        self._tell(Submitted(self.now(), job))
        return job.id

    def cancel(self, job: JobId) -> None:
        self._tell(Cancelled(self.now(), job))

    async def ended(self, job: JobId, patience_s: float = 60.0) -> str:
        await until(lambda: self.rig.job(job).status in OVER, patience_s)
        return self.rig.job(job).status

    async def running(self, job: JobId) -> None:
        await until(lambda: self.rig.job(job).status == "running", 60.0)

    async def nodes(self, count: int) -> None:
        await until(lambda: sum(room.alive for room in self.rig.state.resources.nodes) == count)

    def exits(self, job: JobId) -> list[tuple[int, str, int | None, str]]:
        return [(each.run, each.how, each.code, each.why) for each in self.rig.facts
                if isinstance(each, Exited) and each.job == job]  # fmt: skip

    def nodes_seen(self) -> list[str]:
        return [f"+{each.node.id}" if isinstance(each, NodeJoined) else f"-{each.node}" for each in self.rig.facts
                if isinstance(each, NodeJoined | NodeLost)]  # fmt: skip

    # ---- how it works

    def _tell(self, *events: Event) -> None:
        self._carry_out(list(events), [])

    def _carry_out(self, events: Sequence[Event], replies: list[Reply]) -> None:
        decisions = self.rig.tell(*events) if events else []
        for reply in [*replies, *(reply for decision in decisions for reply in self.registry.execute(decision))]:
            stream = self._streams.get(reply.conn)
            if stream is not None:
                stream.put_nowait(reply.message if isinstance(reply, Send) else reply)

    def _through(self, do: Callable[[float], Any]) -> None:
        events, replies = do(self.now())
        self._carry_out(events, list(replies))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            self._through(self.registry.tick)
            if self.rig.alarm is not None and self.now() >= self.rig.alarm:
                self.rig.alarm = None
                self._tell(Wake(self.now()))

    async def _attach(self, requests: AsyncIterator[AgentMessage], context: Any) -> None:
        conn, out = next(self._numbers) + 1_000_000, asyncio.Queue[SchedulerMessage | Close]()
        self._streams[conn] = out
        reading = asyncio.ensure_future(self._read(conn, requests, out))
        try:
            while True:
                message = await out.get()
                if isinstance(message, Close):
                    await context.abort(grpc.StatusCode[message.code], message.words)
                else:
                    await context.write(message)
        finally:
            reading.cancel()
            if self._streams.pop(conn, None) is not None:
                self._through(lambda now: self.registry.disconnect(conn, now))

    async def _read(
        self, conn: int, requests: AsyncIterator[AgentMessage], out: asyncio.Queue[SchedulerMessage | Close]
    ) -> None:
        async for message in requests:
            if message.WhichOneof("is") in ("hello", "heartbeat", "news", "gpus"):
                self._through(lambda now, message=message: self.registry.receive(conn, message, now))  # type: ignore[misc]
        out.put_nowait(Close(conn, "UNAVAILABLE", "the agent has gone"))


@dataclass
class Fleet:
    """Workers in folders of their own, each to be started and let die by its name."""

    root: Path
    scheduling: Scheduling
    working: dict[str, tuple[Worker, asyncio.Future[None]]] = field(default_factory=dict)

    async def start(self, *names: str, gpus: int = 1) -> None:
        site = Site(self.root, self.scheduling)  # type: ignore[arg-type]
        for name in names:
            worker = site.worker(name, gpus)
            await worker.open()
            self.working[name] = worker, asyncio.ensure_future(worker.serve())

    async def stop(self, *names: str) -> None:
        """Its runs go on without it."""
        for name in names:
            worker, serving = self.working.pop(name)
            worker.detach()
            await asyncio.wait_for(serving, 20)
            await worker.close()

    def log(self, name: str, job: JobId, run: int = 1) -> str:
        path = self.root / name / "jobs" / job / str(run) / "output.log"
        return path.read_text() if path.exists() else ""


@asynccontextmanager
async def cluster(root: Path, *names: str, gpus: int = 1, **settings: Any) -> AsyncIterator[tuple[Scheduling, Fleet]]:
    scheduling = Scheduling(**settings)
    await scheduling.open()
    fleet = Fleet(root, scheduling)
    try:
        for count, name in enumerate(names, 1):
            await fleet.start(name, gpus=gpus)
            await scheduling.nodes(count)
        yield scheduling, fleet
        for job in list(scheduling.rig.state.jobs.values()):
            if job.status not in OVER:
                scheduling.cancel(job.id)
        await until(lambda: not scheduling.rig.state.active, 60.0)
    finally:
        await fleet.stop(*list(fleet.working))
        await scheduling.close()
