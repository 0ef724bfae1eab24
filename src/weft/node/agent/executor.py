"""The executor: carries out the decisions of the agent's state machine on this node."""

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

from weft.access.wire.messages import StartRun
from weft.access.wire.runs import RunKey
from weft.errors import InputError
from weft.inputs.atomic import write_atomic
from weft.node.agent.actions import Reconcile, Reweave, Stop
from weft.node.agent.launch import to_launch_spec, weave_spec
from weft.node.agent.runtime import NodeRuntime
from weft.node.agent.source_tree import BadSnapshot, is_hash, receive_blob, unpack
from weft.node.agent.state_dir import AgentDir
from weft.node.engine import free_ports
from weft.node.engine.background import TaskSet
from weft.node.engine.events import RunExited
from weft.node.engine.gpu.discovery import Machine
from weft.node.engine.gpu.poller import HeldGpus
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.rendezvous import needs_port
from weft.node.engine.shim import run_files
from weft.node.engine.users import run_folder
from weft.node.engine.users.accounts import BAD_USER, Account, find_account
from weft.node.engine.users.file_rights import rights_of

RETRY_S: Final = 1.0
Fetch = Callable[[str], AsyncIterator[bytes]]
"""Returns the parts of a blob by its name."""
log = logging.getLogger(__name__)


class Executor:
    """Starts, stops and reconciles runs through the runtime, which reports the results. `fetch` gets blobs.

    With `min_uid`, each run uses the account of its job's user, whose number is at least that.
    """

    def __init__(self, runtime: NodeRuntime, folder: AgentDir, fetch: Fetch, *, min_uid: int | None = None) -> None:
        self._runtime, self._folder, self._fetch, self._min_uid = runtime, folder, fetch, min_uid
        self._fetching: dict[RunKey, asyncio.Task[None]] = {}
        """Runs whose source tree or standard input is being fetched."""
        self._tasks = TaskSet()

    async def close(self) -> None:
        await self._tasks.close()

    def held_gpus(self, runs: Iterable[RunKey]) -> dict[RunKey, HeldGpus]:
        """Return the GPUs that these runs hold, as their launch specs say."""
        machine = self._runtime.machine
        return {key: _held_by_run(self._folder.run_dir(*key), machine) for key in runs}

    # ---- starting

    def start(self, launch: StartRun) -> None:
        key = launch.job, launch.run
        self._runtime.hold(key, tuple(launch.gpus), launch.memory_mb)
        if self._folder.is_claimed(*key):
            self.reconcile(Reconcile(*key))
        elif launch.snapshot or launch.stdin:
            self._fetching[key] = task = self._tasks.spawn(self._start_with_files(launch))
            task.add_done_callback(lambda _: self._fetching.pop(key, None))
        else:
            self._start(launch, "")

    async def _start_with_files(self, launch: StartRun) -> None:
        folder = self._folder.run_dir(launch.job, launch.run)
        try:
            account = self._account_of(launch)
        except InputError as error:
            self._reject(launch, BAD_USER, str(error))
            return
        try:
            while True:
                try:
                    run_files.make_run_dir(folder)
                    work = folder if account is None else run_folder.prepare(folder, account)
                    tree = ""
                    if launch.snapshot:
                        tree = await unpack(launch.snapshot, self._fetch(launch.snapshot), folder, work, account)
                    if launch.stdin:
                        await self._fetch_stdin(launch.stdin, folder)
                        run_folder.give_to(f"{folder}/{launch.stdin}", account)
                    break
                except grpc.aio.AioRpcError as error:
                    if error.code() != grpc.StatusCode.UNAVAILABLE:
                        raise BadSnapshot(f"cannot fetch the files of the job: {error.details()}") from None
                    await asyncio.sleep(RETRY_S)  # either the connection comes back or the lease ends
        except (BadSnapshot, OSError) as error:
            self._reject(launch, "snapshot" if launch.snapshot else "bad-input", str(error))
            return
        self._start(launch, tree)

    async def _fetch_stdin(self, name: str, folder: str) -> None:
        """Fetch the standard input of a run into its folder."""
        if not is_hash(name):
            raise BadSnapshot(f"{name[:80]!r} is not the hash of a blob")
        await receive_blob(name, self._fetch(name), f"{folder}/{name}.part")
        os.rename(f"{folder}/{name}.part", f"{folder}/{name}")

    def _account_of(self, launch: StartRun) -> Account | None:
        """Return the account that a run uses; None: the worker's. Raise InputError if its user may not run jobs."""
        return None if self._min_uid is None else find_account(launch.user, self._min_uid)

    def _start(self, launch: StartRun, tree: str) -> None:
        try:
            account = self._account_of(launch)
        except InputError as error:
            self._reject(launch, BAD_USER, str(error))
            return
        try:
            spec = to_launch_spec(
                launch, self._runtime.machine, env=os.environ, tree=tree, socket=str(self._folder.progress),
                lease=self._folder.lease, blobs=self._folder.run_dir(launch.job, launch.run),
                account=account,
            )  # fmt: skip
            spec.check()
            if self._is_port_taken(spec):
                self._reject(launch, "port-taken", f"another process uses port {spec.gang.port if spec.gang else 0}")
                return
            self._write_checkpoint(launch, account)
            self._runtime.start(spec)
        except InputError as error:
            self._reject(launch, "start-failed", str(error))

    def _is_port_taken(self, spec: LaunchSpec) -> bool:
        """Return whether another process uses the rendezvous port; checked on the head node just before the start."""
        gang = spec.gang
        if gang is None or gang.rank != 0 or not needs_port(spec.argv, gang, spec.per_gpu):
            return False
        try:
            return not free_ports.is_free(gang.head.address, gang.port)
        except OSError:  # an address that does not resolve here: the gang reports it
            return False

    def _write_checkpoint(self, launch: StartRun, account: Account | None) -> None:
        """Write the checkpoint record of an earlier run on another node, unless this node has a later one."""
        if not launch.checkpoint:
            return
        run_dir = self._folder.run_dir(launch.job, launch.run)
        folder = f"{os.path.dirname(run_dir)}/{run_files.CHECKPOINTS}"
        with suppress(ValueError, TypeError, KeyError, OSError):
            if account is None:
                os.makedirs(folder, mode=0o700, exist_ok=True)
            else:
                run_folder.prepare(run_dir, account)
                run_folder.make_user_folder(folder, account)
            with rights_of(account):
                known = run_files.read_object(f"{folder}/latest.json") or {"time": 0.0}
                if float(json.loads(launch.checkpoint)["time"]) > float(known["time"]):
                    write_atomic(f"{folder}/latest.json", launch.checkpoint.encode())

    def _reject(self, launch: StartRun, why: str, detail: str) -> None:
        """Fence the run so that it never starts, and report why."""
        log.warning("job %s, run %d: %s: %s", launch.job, launch.run, why, detail)
        try:
            fenced = self._folder.fence(launch.job, launch.run)
        except OSError:
            fenced = True  # if nothing can be written, no shim can claim the run either
        if fenced:
            self._runtime.report(RunExited(time.time(), launch.job, launch.run, why=why, detail=detail[:500]))
        else:
            self.reconcile(Reconcile(launch.job, launch.run))

    def reweave(self, request: Reweave) -> str:
        """Give a run another weave. Return the id of the one that it has then."""
        key = request.job, request.run
        try:
            self._runtime.reweave(*key, weave_spec(request.weave))
        except InputError as error:
            log.warning("job %s, run %d: %s", *key, error)
        return self._runtime.woven.of(key).id

    # ---- ending

    def stop(self, request: Stop) -> None:
        key = request.job, request.run
        fetching = self._fetching.get(key)
        if fetching is not None:
            fetching.cancel()
            self.reconcile(Reconcile(*key))
            return
        try:
            known = self._runtime.stop(request.job, request.run, request.why, request.grace_s)
        except OSError:
            log.exception("cannot stop job %s; trying again", request.job)
            asyncio.get_running_loop().call_later(RETRY_S, self.stop, request)
            return
        if not known:
            self.reconcile(Reconcile(*key))

    def reconcile(self, request: Reconcile) -> None:
        """Have the runtime determine and report the state of a run."""
        self._tasks.spawn(self._runtime.adopt(self.held_gpus([(request.job, request.run)])))


def _held_by_run(folder: str, machine: Machine) -> HeldGpus:
    """Return the GPUs that a run holds, as its launch spec says."""
    spec: Mapping[str, Any] = run_files.read_object(f"{folder}/{run_files.SPEC}") or {}
    env = spec.get("env") or {}
    positions = {str(device.index): gpu for gpu, device in enumerate(machine.devices)}
    gpus = tuple(positions[index] for index in str(env.get("WEFT_GPU_IDS", "")).split(",") if index in positions)
    memory = str(env.get("WEFT_GPU_MEM_LIMIT_MB", "0"))
    return HeldGpus(gpus, time.monotonic(), int(memory) if memory.isdecimal() else 0)
