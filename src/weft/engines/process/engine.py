"""The process engine: starts runs, stops them, finds them again, and reports what becomes of them.

It keeps nothing that the files of the runs do not say too: it may be killed at any moment, and a new one adopts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from weft.engines.background import TaskSet
from weft.engines.process import free_ports
from weft.engines.process.environment import gang_or_alone, run_environment
from weft.engines.process.events import Report, RunExited, RunStarted, read_exited, read_started
from weft.engines.process.launch_spec import LaunchSpec, is_valid_job_id
from weft.engines.process.recovery import node_stop, run_record
from weft.engines.process.recovery.orphans import kill_orphans
from weft.engines.process.recovery.process_watcher import ProcessWatcher
from weft.engines.process.rendezvous import hostfile_text, node_command
from weft.engines.process.shim import notify, run_files
from weft.engines.process.shim.process_id import Identity, boot_id, is_alive, send_signal
from weft.engines.process.shim.process_tree import descendant_pids
from weft.engines.process.shim.shim import CHECK_STOP_FILE, STOP_SIGNALS
from weft.engines.process.shim.stop_escalation import first_step
from weft.engines.process.starter_client import StarterClient, remove_spooled
from weft.errors import InputError
from weft.model import JobId, NodeId

LOOK_S: Final = 1.0
"""How often runs are looked at whose shim is not watched yet: most are over before."""
UNCLEAR_S: Final = 3.0
"""How long a claim may stay unreadable before its shim counts as dead."""
UNCLAIMED_S: Final = 20.0
"""How long an order may wait for its shim before it is given up."""


@dataclass(slots=True)
class _Run:
    job: JobId
    run: int
    token: str
    since: float
    leader: Identity | None = None
    shim: Identity | None = None
    stopping: bool = False
    burying: bool = False
    held: RunExited | None = None
    """Its exit, until it is clear whether the whole node stops."""

    @property
    def name(self) -> str:
        return f"{self.job}/{self.run}"


class ProcessEngine:
    def __init__(self, node: NodeId, jobs_dir: Path, runtime_dir: Path, report: Callable[[Report], None]) -> None:
        self.node = node
        self._jobs_dir, self._runtime_dir = os.path.abspath(jobs_dir), os.path.abspath(runtime_dir)
        self._report = report
        self._runs: dict[str, _Run] = {}
        self._bell: Any = None
        self._link: StarterClient | None = None
        self._vigil = ProcessWatcher(self._shim_gone)
        self._tasks = TaskSet()
        self._look: asyncio.TimerHandle | None = None
        self._booted_at = 0.0
        self._leaving = False

    @property
    def runs(self) -> dict[tuple[JobId, int], Identity | None]:
        """The runs that have not ended, each with its shim once it is known."""
        return {(run.job, run.run): run.shim for run in self._runs.values()}

    def processes(self) -> dict[tuple[JobId, int], frozenset[int]]:
        """The pids of every run that has started: looked up in /proc, so not for free."""
        return descendant_pids({(run.job, run.run): run.shim.pid for run in self._runs.values() if run.shim})

    @property
    def starter(self) -> int | None:
        """The pid of the warm starter, while there is one."""
        return self._link.pid if self._link else None

    # ---- opening and closing

    async def open(self) -> None:
        for folder in (self._jobs_dir, self._runtime_dir):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        self._booted_at = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        remove_spooled(self._runtime_dir)
        self._bell = notify.listen(self._runtime_dir)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._bell.fileno(), self._on_bell)
        self._link = StarterClient(self._runtime_dir, self._starter_gone)
        self._look = loop.call_later(LOOK_S, self._look_around)

    def leave(self) -> None:
        """The node was told to stop. Runs that SIGTERM ends around this moment are left for the next engine to report
        as `node-stopped`."""
        self._leaving = True
        for run in self._runs.values():
            node_stop.mark(run_files.run_dir(self._jobs_dir, run.job, run.run))

    async def close(self) -> None:
        """Leaves the runs alone: whoever opens next may adopt them."""
        if self._look is not None:
            self._look.cancel()
        await self._tasks.close()
        self._vigil.close()
        if self._link is not None:
            self._link.close()
            self._link = None
        if self._bell is not None:
            asyncio.get_running_loop().remove_reader(self._bell.fileno())
            self._bell.close()
            self._bell = None

    # ---- what is asked of it

    def start(self, order: LaunchSpec) -> None:
        """Begin a run. What comes of it is reported; only an order that makes no sense is refused here."""
        order.check()
        run = _Run(order.job, order.run, secrets.token_hex(8), time.monotonic())
        if run.name in self._runs:
            raise InputError(f"run {run.run} of job {run.job} has been started already")
        self._runs[run.name] = run
        try:
            if self._link is not None:
                self._link.send(self._encode(order, run.token))
                return
        except OSError:
            pass  # it was too long to be sent, and could not be written
        self._tasks.spawn(self._settle(run))

    def stop(self, job: JobId, run: int, why: str, grace_s: float | None = None) -> bool:
        """Tell a run to end; False: it has ended. `preempted` and `moved` let it save its work first.

        Without a grace it gets what its order says. A second stop can only make it end sooner.
        """
        known = self._runs.get(f"{job}/{run}")
        if known is None:
            return False
        if known.held is not None:
            self._release(known)
            return True
        folder = run_files.run_dir(self._jobs_dir, job, run)
        call: int = CHECK_STOP_FILE
        try:
            run_files.make_run_dir(folder)
            run_files.write_atomic(f"{folder}/{run_files.STOP}", run_files.to_json({"why": why, "grace_s": grace_s}))
        except OSError:
            if known.shim is None:
                raise
            call = STOP_SIGNALS["kill" if grace_s == 0 else first_step(why)]
        known.stopping = True
        if known.shim is not None:
            with contextlib.suppress(OSError):  # no descriptor for it: the shim looks by itself, a little later
                send_signal(known.shim, call)
        return True

    def kill_all(self) -> None:
        """Kill every run now, with all its processes."""
        for run in list(self._runs.values()):
            self.stop(run.job, run.run, "cancelled", 0.0)

    async def adopt(self, runs: Iterable[tuple[JobId, int]]) -> None:
        """Find out what became of runs that an earlier engine started, and keep those that live."""
        found = [_Run(job, run, "", time.monotonic()) for job, run in runs if is_valid_job_id(job) and run > 0]
        self._runs.update((run.name, run) for run in found)
        await asyncio.gather(*(self._settle(run) for run in found))

    # ---- what it hears

    def _on_bell(self) -> None:
        for message in notify.receive(self._bell):
            try:
                body = json.loads(message)
                run = self._runs.get(f"{body['job']}/{body['run']}")
                genuine = run is not None and body["token"] == run.token
            except (ValueError, KeyError, TypeError):
                continue
            if run is None or not genuine:
                continue
            if exited := read_exited(body):
                self._finish(run, exited)
            elif started := read_started(body):
                self._begun(run, started)

    def _begun(self, run: _Run, started: RunStarted) -> None:
        if run.leader is not None:
            return
        run.leader, run.shim = started.leader, started.shim
        self._report(started)
        if run.stopping:
            send_signal(started.shim, CHECK_STOP_FILE)

    def _finish(self, run: _Run, exited: RunExited) -> None:
        known = self._runs.get(run.name)
        if known is None or known.held is not None:
            return
        self._vigil.drop(run.name)
        if node_stop.is_unasked_sigterm(exited):
            exited = node_stop.judged(exited, run_files.run_dir(self._jobs_dir, run.job, run.run))
            wait_s = node_stop.hold_left_s(exited)
            if self._leaving or (wait_s > 0 and not exited.why and not known.stopping):
                known.held = exited
                asyncio.get_running_loop().call_later(wait_s, self._release, known)
                return
        del self._runs[run.name]
        self._report(exited)

    def _release(self, run: _Run) -> None:
        """Report an exit that was held back, unless the node stops: then the next engine finds it."""
        if run.held is not None and not self._leaving and self._runs.get(run.name) is run:
            del self._runs[run.name]
            self._report(run.held)

    def _starter_gone(self) -> None:
        """Runs whose orders it took down with it never start; the others are not concerned."""
        self._link = None
        for run in self._runs.values():
            if run.shim is None:
                self._tasks.spawn(self._settle(run))
        self._tasks.spawn(self._reopen())

    async def _reopen(self) -> None:
        while self._link is None:
            await asyncio.sleep(LOOK_S)
            with contextlib.suppress(OSError):
                self._link = StarterClient(self._runtime_dir, self._starter_gone)

    def _shim_gone(self, name: str) -> None:
        run = self._runs.get(name)
        if run is not None:
            self._tasks.spawn(self._settle(run))

    def _look_around(self) -> None:
        """Watch the shims of runs that have lasted; ask after runs of which nothing was heard."""
        self._look = asyncio.get_running_loop().call_later(LOOK_S, self._look_around)
        self._vigil.ask()
        before = time.monotonic() - LOOK_S
        for run in list(self._runs.values()):
            if run.since > before or run.burying or run.held is not None:
                continue
            if run.shim is not None:
                self._vigil.keep(run.name, run.shim)
            else:
                self._glance(run)

    # ---- finding out

    def _glance(self, run: _Run) -> None:
        """A run that should have begun: its bell may have gone unheard, or its order may still wait its turn."""
        evidence = self._examine(run)
        if evidence.exited is not None or evidence.claimed or time.monotonic() - run.since > UNCLAIMED_S:
            self._tasks.spawn(self._settle(run))

    def _examine(self, run: _Run) -> run_record.Evidence:
        return run_record.look(run_files.run_dir(self._jobs_dir, run.job, run.run), self._booted_at)

    async def _settle(self, run: _Run) -> None:
        """Read the files of a run and act on its fate: see the table of `run_record`."""
        if run.burying:
            return
        run.burying = True
        folder = run_files.run_dir(self._jobs_dir, run.job, run.run)
        until = time.monotonic() + UNCLEAR_S
        try:
            while run.name in self._runs:
                evidence = self._examine(run)
                fate = run_record.fate(evidence, boot_id(), is_alive)
                if fate == "unclear" and time.monotonic() > until:
                    fate = "lost"
                if fate == "lost":
                    evidence = self._examine(run)  # it may have written its record just before it went
                    fate = "finished" if evidence.ended else "lost"
                if fate == "unclear" or (fate == "unclaimed" and not _fenced(folder)):
                    await asyncio.sleep(0.01)
                    continue
                await self._conclude(run, fate, evidence)
                return
        finally:
            run.burying = False

    async def _conclude(self, run: _Run, fate: run_record.Fate, evidence: run_record.Evidence) -> None:
        run.token = run.token or evidence.token
        if fate == "finished" and evidence.ended is not None:
            self._finish(run, evidence.ended)
        elif fate == "unclaimed" and run.leader is None:
            self._never_started(run, "its start was lost with the process that was to make it")
        elif fate == "fenced":
            self._never_started(run, "it had been given up before it started")
        elif fate == "reboot":
            self._lose(run, "reboot", "the machine was restarted meanwhile")
        elif fate == "alive":
            self._take_over(run, evidence)
        else:
            await self._bury(run, evidence)

    def _take_over(self, run: _Run, evidence: run_record.Evidence) -> None:
        run.shim = evidence.shim
        node_stop.shorten(run_files.run_dir(self._jobs_dir, run.job, run.run))
        if run.shim is not None:
            self._vigil.keep(run.name, run.shim)
        if evidence.started is not None:
            self._begun(run, evidence.started)

    async def _bury(self, run: _Run, evidence: run_record.Evidence) -> None:
        """The shim is dead and left no record: nothing of the run may stay on its GPUs."""
        leader = evidence.started.leader if evidence.started else run.leader
        folder = f"WEFT_CKPT_DIR={self._jobs_dir}/{run.job}/{run_files.CHECKPOINTS}"
        sure = f"WEFT_RUN_TOKEN={run.token}" if run.token else folder
        marks = (f"WEFT_JOB_ID={run.job}", f"WEFT_RUN={run.run}", sure)
        survivors = await asyncio.to_thread(kill_orphans, marks, leader)
        if evidence.record is None and not survivors:  # claimed, but not even that was written: it never got further
            self._never_started(run, "whoever was to start it got no further than its name")
            return
        detail = f"the process that kept it was killed; {survivors} of its own were left and have been killed"
        self._lose(run, "lost", detail)

    def _never_started(self, run: _Run, detail: str) -> None:
        self._lose(run, "never-started", detail)

    def _lose(self, run: _Run, why: str, detail: str) -> None:
        self._finish(run, RunExited(time.time(), run.job, run.run, why=why, detail=detail))

    def _encode(self, order: LaunchSpec, token: str) -> bytes:
        gang = order.gang or gang_or_alone(order, self.node, free_ports.find_free_port() if order.per_gpu else 0)
        env = run_environment(order, self.node, self._jobs_dir, token, time.time(), gang)
        return run_files.to_json(
            {
                "job": order.job,
                "run": order.run,
                "token": token,
                "dir": run_files.run_dir(self._jobs_dir, order.job, order.run),
                "bell_dir": self._runtime_dir,
                "argv": node_command(order.argv, gang, order.per_gpu, sys.executable),
                "env": env,
                "hostfile": hostfile_text(gang) if "WEFT_HOSTFILE" in env else "",
                "chdir": order.chdir,
                "umask": order.umask,
                "time_limit_s": order.time_limit_s,
                "grace_s": order.grace_s,
                "preempt_grace_s": order.preempt_grace_s,
                "log_cap_bytes": order.log_cap_bytes,
                "params": dict(order.params),
                "lease": order.lease,
            }
        )


def _fenced(folder: str) -> bool:
    try:
        return run_record.fence(folder)
    except OSError:  # a full disk: it is tried again
        return False
