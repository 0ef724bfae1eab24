"""Probes of replicas: each run of a service has a port, and is asked there whether it serves."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from weft.access.wire.messages import ReplicaStatus
from weft.access.wire.runs import RunKey
from weft.inputs.atomic import write_atomic
from weft.model import Health, JobId
from weft.node.agent.replicas.health import ReplicaHealth
from weft.node.engine.background import TaskSet
from weft.node.engine.environment import LOOPBACK
from weft.node.engine.free_ports import find_free_port
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.shim import run_files

PROBE_TIMEOUT_S: Final = 5.0
MIN_PROBE_TIMEOUT_S: Final = 2.0
"""Replicas that are probed often hang when they do not answer for this time."""
PIECE_BYTES: Final = 65_536
OK_STATUSES: Final = range(200, 400)
SAID_READY_STATUSES: Final = range(200, 500)
"""Statuses that count if the program said that it can serve: it may know no path for probes."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplicaReport:
    """A change of a replica."""

    job: JobId
    run: int
    ready: bool
    port: int
    why: str = ""
    """Why it is not ready."""

    @property
    def status(self) -> ReplicaStatus:
        """The report as a message."""
        return ReplicaStatus(port=self.port, ready=self.ready, why=self.why)


class Prober:
    """Probes the replicas on this node, and reports when they become ready or break."""

    def __init__(self, jobs: Path, report: Callable[[ReplicaReport], None]) -> None:
        self._jobs, self._report = jobs, report
        self._ports: dict[RunKey, int] = {}
        self._probes: dict[RunKey, asyncio.Task[None]] = {}
        self._last: dict[RunKey, ReplicaReport] = {}
        self._tasks = TaskSet()

    def assign(self, spec: LaunchSpec) -> LaunchSpec:
        """Give the run of a replica a port, and write it down: a later process of this node goes on with the probes."""
        if spec.health is None:
            return spec
        port = find_free_port()
        while port in self._ports.values():
            port = find_free_port()
        key = (spec.job, spec.run)
        folder = self._folder(key)
        run_files.make_run_dir(folder)
        content = run_files.to_json(
            {"host": spec.host or LOOPBACK, "port": port, "since": time.time(), "health": asdict(spec.health)}
        )
        write_atomic(f"{folder}/{run_files.REPLICA}", content)
        self._ports[key] = port
        return replace(spec, port=port)

    def find(self, keys: Iterable[RunKey]) -> None:
        """Probe the replicas among runs of an earlier process of this node."""
        for key in keys:
            self.watch(key)

    def watch(self, key: RunKey) -> None:
        """Probe a run that has started, if it is a replica."""
        found = self._read(key)
        if found is not None and key not in self._probes:
            host, port, since, health = found
            self._ports[key] = port
            self._probes[key] = self._tasks.spawn(self._probe(key, host, port, ReplicaHealth(health, since)))

    def discard(self, key: RunKey) -> None:
        """Forget a run that has ended."""
        self._ports.pop(key, None)
        self._last.pop(key, None)
        if (task := self._probes.pop(key, None)) is not None:
            task.cancel()

    def reports(self) -> dict[RunKey, ReplicaReport]:
        """Return the last report of each replica."""
        return dict(self._last)

    async def close(self) -> None:
        await self._tasks.close()

    async def _probe(self, key: RunKey, host: str, port: int, state: ReplicaHealth) -> None:
        while not state.broken:
            answered = await self._answers(key, host, port, state)
            change = state.observe(time.time(), answered)
            if change is not None:
                report = self._last[key] = ReplicaReport(*key, change[0] == "ready", port, change[1])
                self._report(report)
            await asyncio.sleep(state.wait_s)

    async def _answers(self, key: RunKey, host: str, port: int, state: ReplicaHealth) -> bool:
        """Probe a replica once. One that is not ready yet must answer its warm-up too."""
        health = state.health
        says_ready = os.path.exists(f"{self._folder(key)}/{run_files.READY}")
        allowed = SAID_READY_STATUSES if says_ready else OK_STATUSES
        timeout_s = min(PROBE_TIMEOUT_S, max(health.every_s, MIN_PROBE_TIMEOUT_S))
        if not await answers(host, port, health.path, allowed, timeout_s=timeout_s):
            return False
        if state.ready or not health.warmup_path:
            return True
        within_s = max(state.since + health.start_within_s - time.time(), PROBE_TIMEOUT_S)
        for _ in range(health.warmup_requests):
            if not await answers(host, port, health.warmup_path, OK_STATUSES, health.warmup_body, within_s):
                return False
        return True

    def _folder(self, key: RunKey) -> str:
        return run_files.run_dir(os.path.abspath(self._jobs), *key)

    def _read(self, key: RunKey) -> tuple[str, int, float, Health] | None:
        """Return the address, the start and the probes of a replica; None: the run is no replica."""
        try:
            found = json.loads(Path(self._folder(key), run_files.REPLICA).read_bytes())
            return str(found["host"]), int(found["port"]), float(found["since"]), Health(**found["health"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.error("cannot read the port of job %s, run %d: %s", *key, error)
            return None


async def answers(
    host: str, port: int, path: str, allowed: range = OK_STATUSES, body: str = "", timeout_s: float = PROBE_TIMEOUT_S
) -> bool:
    """Return whether a GET, or a POST of a JSON body, is answered with one of the allowed statuses."""
    lines = [f"{'POST' if body else 'GET'} {path} HTTP/1.1", f"Host: {host}:{port}", "Connection: close"]
    lines.append("User-Agent: weft-probe")
    content = body.encode()
    if content:
        lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write("\r\n".join([*lines, "", ""]).encode("ascii") + content)
                words = (await reader.readline()).split(None, 2)
                found = len(words) > 1 and words[0].startswith(b"HTTP/1.") and int(words[1]) in allowed
                if found and content:  # the work of a warm-up is done once the answer is complete
                    while await reader.read(PIECE_BYTES):
                        pass
                return found
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):
        return False
