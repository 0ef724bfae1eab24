"""Carries out on this node what the agent's state machine decides: starts, stops and settles runs."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import grpc
import grpc.aio

from weft.agent.orders import run_order
from weft.agent.runtime import NodeRuntime
from weft.agent.source_tree import BadSnapshot, unpack
from weft.agent.state_dir import Folder
from weft.agent.state_machine import Settle, Stop
from weft.engines.background import TaskSet
from weft.engines.process import free_ports
from weft.engines.process.events import RunExited
from weft.engines.process.gpu.discovery import Machine
from weft.engines.process.gpu.poller import HeldGpus
from weft.engines.process.launch_spec import LaunchSpec
from weft.engines.process.rendezvous import needs_port
from weft.engines.process.shim import run_files
from weft.errors import InputError
from weft.inputs.atomic import write_atomic
from weft.wire.messages import StartRun
from weft.wire.runs import RunKey

RETRY_S: Final = 1.0
Fetch = Callable[[str], AsyncIterator[bytes]]
"""The parts of a blob, by its name."""
log = logging.getLogger(__name__)


class Executor:
    """What comes of it, the runtime reports. `fetch` gets the source trees of runs."""

    def __init__(self, runtime: NodeRuntime, folder: Folder, fetch: Fetch) -> None:
        self._runtime, self._folder, self._fetch = runtime, folder, fetch
        self._coming: dict[RunKey, asyncio.Task[None]] = {}
        """Runs whose files are on their way."""
        self._tasks = TaskSet()

    async def close(self) -> None:
        await self._tasks.close()

    def held(self, runs: Iterable[RunKey]) -> dict[RunKey, HeldGpus]:
        """What an earlier agent gave these runs, as the order of each says."""
        machine = self._runtime.machine
        return {key: _held(self._folder.run(*key), machine) for key in runs}

    # ---- starting

    def start(self, order: StartRun) -> None:
        key = order.job, order.run
        self._runtime.hold(key, tuple(order.gpus), order.memory_mb)
        if self._folder.is_claimed(*key):
            self.settle(Settle(*key))
        elif order.snapshot:
            self._coming[key] = task = self._tasks.spawn(self._start_with_files(order))
            task.add_done_callback(lambda _: self._coming.pop(key, None))
        else:
            self._start(order, "")

    async def _start_with_files(self, order: StartRun) -> None:
        folder = self._folder.run(order.job, order.run)
        try:
            while True:
                try:
                    run_files.make_run_dir(folder)
                    tree = await unpack(order.snapshot, self._fetch(order.snapshot), folder)
                    break
                except grpc.aio.AioRpcError as error:
                    if error.code() != grpc.StatusCode.UNAVAILABLE:
                        raise BadSnapshot(f"the snapshot cannot be had: {error.details()}") from None
                    await asyncio.sleep(RETRY_S)  # a connection that was cut comes back, or the lease ends
        except (BadSnapshot, OSError) as error:
            self._refuse(order, "snapshot", str(error))
            return
        self._start(order, tree)

    def _start(self, order: StartRun, tree: str) -> None:
        try:
            wanted = run_order(
                order, self._runtime.machine, env=os.environ, tree=tree, socket=str(self._folder.progress),
                lease=self._folder.lease,
            )  # fmt: skip
            wanted.check()
            if self._is_port_taken(wanted):
                self._refuse(order, "port-taken", f"somebody listens at port {wanted.gang.port if wanted.gang else 0}")
                return
            self._leave_checkpoint(order)
            self._runtime.start(wanted)
        except InputError as error:
            self._refuse(order, "start-failed", str(error))

    def _is_port_taken(self, wanted: LaunchSpec) -> bool:
        """Asked where the gang is to meet, just before it does."""
        gang = wanted.gang
        if gang is None or gang.rank != 0 or not needs_port(wanted.argv, gang, wanted.per_gpu):
            return False
        try:
            return not free_ports.is_free(gang.head.address, gang.port)
        except OSError:  # a name that is not known here: let the gang find out
            return False

    def _leave_checkpoint(self, order: StartRun) -> None:
        """What an earlier run recorded on another node, where the job looks for it: unless it knows of a later one."""
        if not order.checkpoint:
            return
        path = f"{self._folder.jobs}/{order.job}/{run_files.CHECKPOINTS}/latest.json"
        with suppress(ValueError, TypeError, KeyError, OSError):
            known = run_files.read_object(path) or {"time": 0.0}
            if float(json.loads(order.checkpoint)["time"]) > float(known["time"]):
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                write_atomic(path, order.checkpoint.encode())

    def _refuse(self, order: StartRun, why: str, detail: str) -> None:
        """It never starts: neither this order nor a late one of the same run."""
        log.warning("job %s, run %d: %s: %s", order.job, order.run, why, detail)
        try:
            fenced = self._folder.fence(order.job, order.run)
        except OSError:
            fenced = True  # nothing can be written, so nothing can be claimed either
        if fenced:
            self._runtime.report(RunExited(time.time(), order.job, order.run, why=why, detail=detail[:500]))
        else:
            self.settle(Settle(order.job, order.run))

    # ---- ending

    def stop(self, wanted: Stop) -> None:
        key = wanted.job, wanted.run
        coming = self._coming.get(key)
        if coming is not None:
            coming.cancel()
            self.settle(Settle(*key))
            return
        try:
            known = self._runtime.stop(wanted.job, wanted.run, wanted.why, wanted.grace_s)
        except OSError:
            log.exception("could not stop job %s", wanted.job)
            asyncio.get_running_loop().call_later(RETRY_S, self.stop, wanted)
            return
        if not known:
            self.settle(Settle(*key))

    def settle(self, wanted: Settle) -> None:
        """Find out what became of a run: the answer is reported as for any run."""
        self._tasks.spawn(self._runtime.adopt(self.held([(wanted.job, wanted.run)])))


def _held(folder: str, machine: Machine) -> HeldGpus:
    """What an earlier agent gave a run, as its order says."""
    order: Mapping[str, Any] = run_files.read_object(f"{folder}/{run_files.SPEC}") or {}
    env = order.get("env") or {}
    places = {str(device.index): gpu for gpu, device in enumerate(machine.devices)}
    gpus = tuple(places[index] for index in str(env.get("WEFT_GPU_IDS", "")).split(",") if index in places)
    memory = str(env.get("WEFT_GPU_MEM_LIMIT_MB", "0"))
    return HeldGpus(gpus, time.monotonic(), int(memory) if memory.isdecimal() else 0)
