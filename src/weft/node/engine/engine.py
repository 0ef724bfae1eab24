"""The process engine: starts, stops and adopts runs, and reports their starts and exits.

The files of the runs hold its whole state: it may be killed at any moment, and a new engine adopts the runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from weft.errors import InputError
from weft.inputs.atomic import write_atomic
from weft.model import JobId, NodeId
from weft.node.engine import cgroups, free_ports
from weft.node.engine.background import TaskSet
from weft.node.engine.cgroups import Cgroups
from weft.node.engine.environment import gang_or_alone, run_environment
from weft.node.engine.events import Report, RunExited, RunStarted, read_exited, read_started
from weft.node.engine.gpu.sharing import GpuSharing
from weft.node.engine.launch_spec import LaunchSpec, is_valid_job_id
from weft.node.engine.recovery import node_stop, run_record
from weft.node.engine.recovery.lost_run import end_lost_run
from weft.node.engine.recovery.process_watcher import ProcessWatcher
from weft.node.engine.shim import notify, run_files
from weft.node.engine.shim.process_id import Identity, boot_id, is_alive, send_signal
from weft.node.engine.shim.requests import CHECK_STOP_FILE, STOP_SIGNALS
from weft.node.engine.shim.run_tree import run_pids
from weft.node.engine.shim.stop_escalation import first_step
from weft.node.engine.shim_arguments import shim_arguments
from weft.node.engine.starter_client import StarterClient, remove_spooled
from weft.node.engine.users.device_filter import DeviceNumber
from weft.node.engine.weaves import NodeWeaves, WeaveSpec

POLL_S: Final = 1.0
"""Interval between checks of runs whose shim is not watched yet. Most runs end before the first check."""
UNREADABLE_CLAIM_S: Final = 3.0
"""Time for which a claim may stay unreadable before its shim counts as dead."""
UNCLAIMED_TIMEOUT_S: Final = 20.0
"""Time for which a launch spec may wait for a shim before the run is fenced."""

NEVER_STARTED: Final = "never-started"


@dataclass(slots=True)
class _Run:
    job: JobId
    run: int
    token: str
    requested_at: float
    leader: Identity | None = None
    shim: Identity | None = None
    stopping: bool = False
    resolving: bool = False
    held_exit: RunExited | None = None
    """The exit, held back until it is clear whether the whole node stops."""

    @property
    def name(self) -> str:
        return f"{self.job}/{self.run}"


class ProcessEngine:
    """The runs of one machine. `report` receives their starts and exits. `lease` is the path of their lease, if any."""

    def __init__(
        self, node: NodeId, jobs_dir: Path, runtime_dir: Path, report: Callable[[Report], None], lease: str = ""
    ) -> None:
        self.node, self._lease = node, lease
        self._jobs_dir, self._runtime_dir = os.path.abspath(jobs_dir), os.path.abspath(runtime_dir)
        self._report, self._runs, self._unsent = report, dict[str, _Run](), list[bytes]()
        self._weaves = NodeWeaves(self._jobs_dir, lambda: self.runs)
        self._notify_socket: Any = None
        self._starter_client: StarterClient | None = None
        self._watcher, self._tasks = ProcessWatcher(self._on_shim_exit), TaskSet()
        self._poll_timer: asyncio.TimerHandle | None = None
        self._booted_at, self._node_stopping = 0.0, False
        self.unreported_exits = 0
        """The number of exits that this engine leaves to the next one."""
        self.cgroups = Cgroups(why="the engine is not open")
        self.sharing = GpuSharing(self._runtime_dir, self._jobs_dir, lambda: bool(self.cgroups.version))
        self.gpu_locks: Callable[[LaunchSpec], dict[str, Any] | None] = lambda _spec: None
        """Returns how the shim of a run locks its GPUs; None: it need not."""
        self.other_gpus: Callable[[LaunchSpec], list[DeviceNumber]] = lambda _spec: []
        """Returns the devices that a run must not open; none: it may open all."""

    @property
    def runs(self) -> dict[tuple[JobId, int], Identity | None]:
        """The runs that have not ended, each with its shim once known."""
        return {(run.job, run.run): run.shim for run in self._runs.values()}

    def pids(self) -> dict[tuple[JobId, int], frozenset[int]]:
        """Return the pids of every run that has started. Reads all of /proc."""
        return self.pids_of({(run.job, run.run): run.shim.pid for run in self._runs.values() if run.shim})

    def pids_of(self, shims: Mapping[tuple[JobId, int], int]) -> dict[tuple[JobId, int], frozenset[int]]:
        return run_pids(shims, self._jobs_dir)

    @property
    def starter_pid(self) -> int | None:
        """The pid of the warm starter, if one is running."""
        return self._starter_client.pid if self._starter_client else None

    # ---- opening and closing

    async def open(self) -> None:
        for folder in (self._jobs_dir, self._runtime_dir):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        self._booted_at = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        remove_spooled(self._runtime_dir)
        self.cgroups = cgroups.find()
        cgroups.remove_stale(self.cgroups)
        self._notify_socket = notify.listen(self._runtime_dir)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._notify_socket.fileno(), self._on_notification)
        self._starter_client = StarterClient(self._runtime_dir, self._on_starter_exit, self._lease)
        self._poll_timer = loop.call_later(POLL_S, self._poll_runs)

    def begin_node_stop(self, *, leaving: bool = False) -> None:
        """Mark that the node stops: runs that SIGTERM ends around now end as `node-stopped`.

        This engine reports them if the node is `leaving`. Otherwise the next engine does.
        """
        self._node_stopping = not leaving
        for run in list(self._runs.values()):
            folder = run_files.run_dir(self._jobs_dir, run.job, run.run)
            node_stop.mark(folder)
            if leaving and run.held_exit is not None:
                run.held_exit = node_stop.with_node_stop(run.held_exit, folder)
                self._report_held_exit(run)

    async def close(self) -> None:
        """Close without stopping the runs: the next engine may adopt them."""
        if self._poll_timer is not None:
            self._poll_timer.cancel()
        await self._tasks.close()
        self._watcher.close()
        if self._starter_client is not None:
            self._starter_client.close()
            self._starter_client = None
        if self._notify_socket is not None:
            asyncio.get_running_loop().remove_reader(self._notify_socket.fileno())
            self._notify_socket.close()
            self._notify_socket = None

    # ---- commands

    def start(self, spec: LaunchSpec) -> None:
        """Start a run. Raise InputError for an invalid spec; report everything else."""
        spec.check()
        run = _Run(spec.job, spec.run, secrets.token_hex(8), time.monotonic())
        if run.name in self._runs:
            raise InputError(f"run {run.run} of job {run.job} is already started")
        self._runs[run.name] = run
        if spec.weave is not None and (spec.gang is None or spec.gang.rank == 0):
            self._weaves.enter(spec.job, spec.run, spec.weave, spec.account)
        send = self._starter_client.send if self._starter_client else self._unsent.append  # the next starter gets it
        try:
            send(self._encode_launch(spec, run.token))
        except OSError:  # the spec is too long to send inline, and its file could not be written
            self._tasks.spawn(self._resolve(run))

    def stop(self, job: JobId, run: int, why: str, grace_s: float | None = None) -> bool:
        """Stop a run; return False if it has ended. `preempted` and `moved` let it save its work first.

        The grace defaults to that of the spec. A second stop can only shorten it.
        """
        known = self._runs.get(f"{job}/{run}")
        if known is None:
            return False
        if known.held_exit is not None:
            self._report_held_exit(known)
            return True
        folder = run_files.run_dir(self._jobs_dir, job, run)
        call: int = CHECK_STOP_FILE
        try:
            run_files.make_run_dir(folder)
            write_atomic(f"{folder}/{run_files.STOP}", run_files.to_json({"why": why, "grace_s": grace_s}))
        except OSError:
            if known.shim is None:
                raise
            call = STOP_SIGNALS["kill" if grace_s == 0 else first_step(why)]
        known.stopping = True
        if known.shim is not None:
            with contextlib.suppress(OSError):  # out of descriptors: the shim reads the stop file within a second
                send_signal(known.shim, call)
        return True

    def limits(self) -> str:
        """Say how limits on main memory and CPUs are kept."""
        return self.cgroups.describe()

    def suspend(self, job: JobId, run: int, suspended: bool) -> bool:
        """Suspend a run, or let it continue; return False if it has ended. The file survives an engine and a shim."""
        known = self._runs.get(f"{job}/{run}")
        if known is None:
            return False
        path = f"{run_files.run_dir(self._jobs_dir, job, run)}/{run_files.SUSPENDED}"
        with contextlib.suppress(FileNotFoundError):
            if suspended:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            else:
                os.unlink(path)
        if known.shim is not None:
            with contextlib.suppress(OSError):  # out of descriptors: the shim looks within a second
                send_signal(known.shim, CHECK_STOP_FILE)
        return True

    def reweave(self, job: JobId, run: int, weave: WeaveSpec | None) -> bool:
        """Move a run to another weave or to none, from its first node; return False if it has ended."""
        return f"{job}/{run}" in self._runs and self._weaves.move(job, run, weave)

    async def adopt(self, runs: Iterable[tuple[JobId, int]]) -> None:
        """Find runs of an earlier engine: supervise the living ones and report the exits of the others."""
        found = [_Run(job, run, "", time.monotonic()) for job, run in runs if is_valid_job_id(job) and run > 0]
        self._runs.update((run.name, run) for run in found)
        self.sharing.adopt((run.job, run.run) for run in found)
        await asyncio.gather(*(self._resolve(run) for run in found))
        self._weaves.collect()

    # ---- notifications

    def _on_notification(self) -> None:
        for message in notify.receive(self._notify_socket):
            try:
                body = json.loads(message)
                run = self._runs.get(f"{body['job']}/{body['run']}")
                genuine = run is not None and body["token"] == run.token
            except (ValueError, KeyError, TypeError):
                continue
            if run is None or not genuine:
                continue
            if exited := read_exited(body):
                self._on_exited(run, exited)
            elif started := read_started(body):
                self._on_started(run, started)

    def _on_started(self, run: _Run, started: RunStarted) -> None:
        if run.leader is not None:
            return
        run.leader, run.shim = started.leader, started.shim
        self._report(started)
        if run.stopping:
            send_signal(started.shim, CHECK_STOP_FILE)

    def _on_exited(self, run: _Run, exited: RunExited) -> None:
        known = self._runs.get(run.name)
        if known is None or known.held_exit is not None:
            return
        self._watcher.unwatch(run.name)
        self._weaves.leave(run.job, run.run)
        self.sharing.leave(run.job, run.run)
        if node_stop.is_unrequested_sigterm(exited):
            exited = node_stop.with_node_stop(exited, run_files.run_dir(self._jobs_dir, run.job, run.run))
            wait_s = node_stop.remaining_hold_s(exited)
            if self._node_stopping or (wait_s > 0 and not exited.why and not known.stopping):
                known.held_exit = exited
                asyncio.get_running_loop().call_later(wait_s, self._report_held_exit, known)
                return
        del self._runs[run.name]
        self._report(exited)

    def _report_held_exit(self, run: _Run) -> None:
        """Report an exit that was held back, unless the node stops: then the next engine reports it."""
        if run.held_exit is None or self._runs.get(run.name) is not run:
            return
        if self._node_stopping:
            self.unreported_exits += 1
            return
        del self._runs[run.name]
        self._report(run.held_exit)

    def _on_starter_exit(self) -> None:
        """Resolve runs without a shim, whose specs may be lost with the starter, and restart the starter."""
        self._starter_client = None
        for run in self._runs.values():
            if run.shim is None:
                self._tasks.spawn(self._resolve(run))
        self._tasks.spawn(self._restart_starter())

    async def _restart_starter(self) -> None:
        while self._starter_client is None:
            await asyncio.sleep(POLL_S)
            with contextlib.suppress(OSError):
                self._starter_client = StarterClient(self._runtime_dir, self._on_starter_exit, self._lease)
                while self._unsent:
                    self._starter_client.send(self._unsent.pop(0))

    def _on_shim_exit(self, name: str) -> None:
        run = self._runs.get(name)
        if run is not None:
            self._tasks.spawn(self._resolve(run))

    def _poll_runs(self) -> None:
        """Watch the shims of older runs, and check runs that have not reported a start."""
        self._poll_timer = asyncio.get_running_loop().call_later(POLL_S, self._poll_runs)
        self._watcher.poll()
        self.sharing.heal()
        before = time.monotonic() - POLL_S
        for run in list(self._runs.values()):
            if run.requested_at > before or run.resolving or run.held_exit is not None:
                continue
            if run.shim is not None:
                self._watcher.watch(run.name, run.shim)
            else:
                self._check_unstarted(run)

    # ---- recovery

    def _check_unstarted(self, run: _Run) -> None:
        """Check a run that should have started: a notification may be lost, or its spec may still be queued."""
        evidence, waited_s = self._read_evidence(run), time.monotonic() - run.requested_at
        if evidence.exited is not None or evidence.claimed or waited_s > UNCLAIMED_TIMEOUT_S:
            self._tasks.spawn(self._resolve(run))

    def _read_evidence(self, run: _Run) -> run_record.Evidence:
        return run_record.read_evidence(run_files.run_dir(self._jobs_dir, run.job, run.run), self._booted_at)

    async def _resolve(self, run: _Run) -> None:
        """Read the record of a run and act on its fate: see the table in `run_record`."""
        if run.resolving:
            return
        run.resolving = True
        folder = run_files.run_dir(self._jobs_dir, run.job, run.run)
        until = time.monotonic() + UNREADABLE_CLAIM_S
        try:
            while run.name in self._runs:
                evidence = self._read_evidence(run)
                fate = run_record.judge(evidence, boot_id(), is_alive)
                if fate == "unclear" and time.monotonic() > until:
                    fate = "lost"
                if fate == "lost":
                    evidence = self._read_evidence(run)  # the shim may have written its record just before it exited
                    fate = "finished" if evidence.ended else "lost"
                if fate == "unclear" or (fate == "unclaimed" and not run_record.try_fence(folder)):
                    await asyncio.sleep(0.01)
                    continue
                await self._act_on_fate(run, fate, evidence)
                return
        finally:
            run.resolving = False

    async def _act_on_fate(self, run: _Run, fate: run_record.Fate, evidence: run_record.Evidence) -> None:
        run.token = run.token or evidence.token
        if fate == "finished" and evidence.ended is not None:
            self._on_exited(run, evidence.ended)
        elif fate == "unclaimed" and run.leader is None:
            self._report_lost(run, NEVER_STARTED, "its launch was lost when the starter process ended")
        elif fate == "fenced":
            self._report_lost(run, NEVER_STARTED, "the engine fenced it before it started")
        elif fate == "reboot":
            from weft.node.engine.container.removal import remove_leftover  # rare

            await asyncio.to_thread(remove_leftover, run_files.run_dir(self._jobs_dir, run.job, run.run))
            self._report_lost(run, fate, "the machine was rebooted")
        elif fate == "alive":
            self._keep_alive_run(run, evidence)
        else:
            await self._kill_lost_run(run, evidence)

    def _keep_alive_run(self, run: _Run, evidence: run_record.Evidence) -> None:
        run.shim = evidence.shim
        node_stop.shorten_mark(run_files.run_dir(self._jobs_dir, run.job, run.run))
        if run.shim is not None:
            self._watcher.watch(run.name, run.shim)
        if evidence.started is not None:
            self._on_started(run, evidence.started)

    async def _kill_lost_run(self, run: _Run, evidence: run_record.Evidence) -> None:
        """Kill the processes of a run whose shim died without an exit record, so that its GPUs are free."""
        leader = evidence.started.leader if evidence.started else run.leader
        orphans = await asyncio.to_thread(end_lost_run, self._jobs_dir, run.job, run.run, run.token, leader)
        # an empty claim means that the shim ended before it started the command
        if evidence.record is None and not orphans:
            self._report_lost(run, NEVER_STARTED, "its shim ended before it started the command")
            return
        rest = "1 remaining process" if orphans == 1 else f"{orphans} remaining processes"
        self._report_lost(run, "lost", f"its shim was killed; Weft killed {rest} of the run")

    def _report_lost(self, run: _Run, why: str, detail: str) -> None:
        self._on_exited(run, RunExited(time.time(), run.job, run.run, why=why, detail=detail))

    def _encode_launch(self, spec: LaunchSpec, token: str) -> bytes:
        gang = spec.gang or gang_or_alone(spec, self.node, free_ports.find_free_port() if spec.per_gpu else 0)
        env = run_environment(spec, self.node, self._jobs_dir, token, time.time(), gang)
        env |= self.sharing.variables(spec, env)
        shim_args = shim_arguments(spec, env, gang, self._jobs_dir, self._runtime_dir)
        shim_args |= {"token": token, "bell_dir": self._runtime_dir}
        shim_args |= {"cgroup": self.cgroups.to_spec(), "gpu_locks": self.gpu_locks(spec)}
        shim_args["denied_devices"] = self.other_gpus(spec) if self.cgroups.limits_devices else []
        return run_files.to_json(shim_args | self.sharing.shim_arguments(spec))
