"""The shim: supervises one run from its claim to its exit record, independently of the engine.

Everything is synchronous: signals are blocked and waited for, without handlers or threads.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from typing import Any, Final

from weft.inputs.atomic import write_all
from weft.node.engine import lease
from weft.node.engine.shim import containers, launch, notify, oom, outputs, process_tree, run_files
from weft.node.engine.shim.limits import OUT_OF_RAM, RunLimits
from weft.node.engine.shim.log_cap import enforce_cap
from weft.node.engine.shim.process_id import identify
from weft.node.engine.shim.requests import CHECK_STOP_FILE, STOP_SIGNALS
from weft.node.engine.shim.run_tree import RunTree
from weft.node.engine.shim.stop_escalation import (
    DEFAULT_REASON,
    NODE_STOPPED,
    TIMEOUT,
    StopEscalation,
    StopStep,
    first_step,
)
from weft.node.engine.users import launcher, run_folder
from weft.node.engine.users.accounts import Account
from weft.node.engine.users.file_rights import rights_of

LEFTOVER_GRACE_S: Final = 2.0
RECORD_BYTES: Final = 4096
RETRY_S: Final = 1.0
UNLIMITED_S: Final = 1e9
"""Postpones the time limit of a suspended run until it continues."""
_STEP_OF_SIGNAL: Final = {number: step for step, number in STOP_SIGNALS.items()}
_AWAITED_SIGNALS: Final = (signal.SIGCHLD, CHECK_STOP_FILE, *STOP_SIGNALS.values())

Spec = dict[str, Any]


class Shim:
    """The supervisor of one command: starts it, waits for it, stops it on request, and records its exit."""

    def __init__(self, spec: Spec, raw: bytes) -> None:
        self.spec, self.raw_spec, self.shim_id = spec, raw, identify(os.getpid())
        self.cpu_before_s = time.process_time()
        self.run_dir, self.account = spec["dir"], Account.from_spec(spec["account"])
        self.dir_fd = self.record_fd = self.log_fd = -1
        self.record_name, self.record_bytes = run_files.CLAIM, 0
        self.status: int | None = None
        self.cpu_s, self.max_rss_kb, self.leftovers = 0.0, 0, 0
        self.code: int | None = None
        self.why = self.detail = ""
        self.started_at = self.started = 0.0
        self.suspended_at: float | None = None
        self.limits, self.tree, self.lease = RunLimits(spec), RunTree(spec), lease.RunLease(spec["lease"])
        self.gpu_locks: list[int] = []

    def run(self) -> bool:
        """Supervise the whole run; return whether this process may serve another."""
        while self._wait_for_signal(0.0):
            pass  # discard signals that are left from the previous run; from the claim on, they are for this one
        try:
            if not self._claim():
                return True
        except OSError as error:
            self._give_up(error)
            return False
        try:
            self._supervise()
        except Exception as error:
            # every run needs an exit record, even after an error in the shim
            self.why, self.detail = "shim-error", repr(error)
            self._end_leftovers()
        if self.spec["lease"]:  # several users may share this node
            run_files.forget_environment(self.spec)
        for handle in self.gpu_locks:
            os.close(handle)
        recorded = self._write_exit()
        for handle in (self.record_fd, self.dir_fd, self.log_fd):
            os.close(handle)
        return recorded

    def _supervise(self) -> None:
        stop = self._read_stop_request()
        if stop is not None or self.lease.has_ended():
            self.why = stop[0] if stop is not None else lease.ENDED
            return
        try:
            self.gpu_locks = launch.lock_gpus(self.spec["gpu_locks"])
            self._start()
        except launch.LaunchError as failure:
            self.code, self.why, self.detail = failure.code, failure.why, failure.detail
            self._write_log(failure.detail)
            return
        self._wait_for_leader()
        self._end_leftovers()
        self._enforce_log_cap()
        self._classify_exit(out_of_ram=self.limits.close())

    # ---- starting

    def _claim(self) -> bool:
        """Claim the run and reserve disk space for its exit record; return False if an engine has fenced the run."""
        run_files.make_run_dir(self.run_dir)
        self.dir_fd = os.open(self.run_dir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fchdir(self.dir_fd)
        try:
            self.record_fd = os.open(run_files.CLAIM, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            os.close(self.dir_fd)
            return False
        try:
            os.posix_fallocate(self.record_fd, 0, RECORD_BYTES)
            self._write_record(run_files.to_json({"is": "claimed", **self._run_keys()}))
            self.log_fd = run_folder.fill(self.spec, self.raw_spec, self.account)
        except OSError:
            os.unlink(run_files.CLAIM)
            raise
        return True

    def _give_up(self, error: OSError) -> None:
        """Report that the shim could write nothing, and so started nothing. Leave no record."""
        self.why = "disk-full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "no-files"
        self.detail = f"cannot write in {self.run_dir!r}: {error.strerror}"
        self._notify(run_files.to_json(self._exit_record()))

    def _start(self) -> None:
        spec = self.spec
        containers.check_account(spec)
        folder = containers.outer_directory(spec)
        out = err = self.log_fd
        if (spec["output"] or spec["error"]) and outputs.can_enter(folder, self.account):
            out, err = outputs.open_outputs(spec, folder, self.log_fd, self.account)
        streams = spec["stdin"], out, err
        try:
            with self.limits.applied():
                self.tree.leader = launcher.start(self.account, spec, folder, streams, self.gpu_locks)
        finally:
            self.log_fd = self._keep_log(out, err)
        self.started_at, self.started = time.time(), time.monotonic()
        os.fchdir(self.dir_fd)
        started = {"is": "started", **self._run_keys(), "leader": identify(self.tree.leader), "at": self.started_at}
        message = run_files.to_json(started)
        with contextlib.suppress(OSError):  # the claim also names the shim, which is enough to find the run
            self._write_record(message)
            os.rename(run_files.CLAIM, run_files.STARTED)
            self.record_name = run_files.STARTED
        self._notify(message)

    def _keep_log(self, out: int, err: int) -> int:
        """Return the descriptor of the log and close the others: with a file of the user, that file is the log."""
        for handle in {self.log_fd, err} - {out}:
            os.close(handle)
        return out

    def _write_log(self, text: str) -> None:
        with contextlib.suppress(OSError):
            write_all(self.log_fd, f"weft: {text}\n".encode(errors="backslashreplace"))

    # ---- supervising

    def _wait_for_leader(self) -> None:
        """Wait until the leader has ended, and stop it when due."""
        spec = self.spec
        escalation = StopEscalation(
            self.started, spec["time_limit_s"], spec["grace_s"], spec["signal"][1] if spec["signal"] else None
        )
        check_at = self.started + lease.POLL_S
        polls = bool(spec["log_cap_bytes"] or spec["lease"] or self.limits.watches)
        self._handle_signal(escalation, CHECK_STOP_FILE)
        while not self._reap():
            now = time.monotonic()
            self._apply_step(escalation.due_step(now))
            if polls and now >= check_at:
                self._check_every_second(escalation)
                check_at = now + lease.POLL_S
            due = [at for at in (escalation.next_due_at(), check_at if polls else None) if at is not None]
            signal_number = self._wait_for_signal(max(0.0, min(due) - now) if due else None)
            if signal_number != signal.SIGCHLD:
                self._handle_signal(escalation, signal_number)
        self.why = escalation.why

    def _check_every_second(self, escalation: StopEscalation) -> None:
        """Check the log size, the stop file, the memory and the lease."""
        self._enforce_log_cap()
        self._handle_signal(escalation, CHECK_STOP_FILE)  # the signal may have failed for lack of descriptors
        if self.limits.exceeded(self.tree):
            self._apply_step(escalation.request_stop(time.monotonic(), OUT_OF_RAM, 0.0))
        if self.lease.has_ended() and not self._reap():
            self._apply_step(
                escalation.request_stop(time.monotonic(), lease.ENDED, min(lease.GRACE_S, self._grace("warn")))
            )

    def _enforce_log_cap(self) -> None:
        if self.spec["log_cap_bytes"] and not self.spec["output"]:  # a user's own file has no cap
            enforce_cap(run_files.LOG, run_files.OLD_LOG, run_files.LOG_READER, self.spec["log_cap_bytes"])

    def _handle_signal(self, escalation: StopEscalation, signal_number: int) -> None:
        step = _STEP_OF_SIGNAL.get(signal_number)
        stop = self._read_stop_request() if step is None else (DEFAULT_REASON[step], self._grace(step))
        # a leader that has already ended was not stopped
        if stop is not None and not self._reap():
            self._apply_step(escalation.request_stop(time.monotonic(), *stop))
        elif stop is None:
            self._suspend_or_continue(escalation)

    def _suspend_or_continue(self, escalation: StopEscalation) -> None:
        """Follow the file by which a user suspends the run. A suspended run does not reach its time limit."""
        wanted = os.path.exists(run_files.SUSPENDED)
        if wanted and self.suspended_at is None:
            self.suspended_at = time.monotonic()
            escalation.postpone(UNLIMITED_S)
            stopped = -1
            while (found := self.tree.signal_all(signal.SIGSTOP)) != stopped:
                stopped = found  # a process may have forked before its signal arrived
        elif wanted and self.spec["container"]:
            self.tree.signal_all(signal.SIGSTOP)  # it may have started since
        elif not wanted and self.suspended_at is not None:
            escalation.postpone(time.monotonic() - self.suspended_at - UNLIMITED_S)
            self._continue()

    def _continue(self) -> None:
        self.suspended_at = None
        self.tree.signal_all(signal.SIGCONT)

    def _read_stop_request(self) -> tuple[str, float] | None:
        stop = run_files.read_object(run_files.STOP)
        if stop is None:
            return None
        why = str(stop.get("why", "cancelled"))
        grace, own_s = stop.get("grace_s"), self._grace(first_step(why))
        if not isinstance(grace, int | float):
            return why, own_s
        # a node that leaves gives at most this long; the job may need less
        return why, min(float(grace), own_s) if why == NODE_STOPPED else float(grace)

    def _grace(self, step: StopStep) -> float:
        return 0.0 if step == "kill" else float(self.spec["preempt_grace_s" if step == "warn" else "grace_s"])

    def _apply_step(self, step: StopStep | None) -> None:
        if step is None:
            return
        if self.suspended_at is not None:
            self._continue()  # only a process that runs can save its work and end
        if step == "warn":
            with contextlib.suppress(OSError):
                os.close(os.open(run_files.PREEMPT, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            if self.spec["signal"]:
                self._send_user_signal()
            else:
                self.tree.signal_leader(signal.SIGTERM)
        elif step == "signal":
            self._send_user_signal()
        elif step == "term":
            self.tree.signal_all(signal.SIGTERM, signal.SIGCONT)
        else:
            self.limits.kill()
            self.tree.kill()

    def _send_user_signal(self) -> None:
        number, _, leader_only = self.spec["signal"]
        if leader_only:
            self.tree.signal_leader(number)
        else:
            self.tree.signal_all(number, signal.SIGCONT)

    def _reap(self) -> bool:
        """Reap dead children, orphans included; return whether the leader has ended."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if not pid:
                return self.status is not None
            self.cpu_s += usage.ru_utime + usage.ru_stime
            self.max_rss_kb = max(self.max_rss_kb, usage.ru_maxrss)
            if pid == self.tree.leader:
                self.status = status

    def _wait_for_signal(self, timeout_s: float | None) -> int:
        """Wait for a signal and return its number, or 0 on timeout."""
        if timeout_s is None:
            return signal.sigwaitinfo(_AWAITED_SIGNALS).si_signo
        received = signal.sigtimedwait(_AWAITED_SIGNALS, timeout_s)
        return received.si_signo if received else 0

    # ---- ending

    def _end_leftovers(self) -> None:
        """Send SIGTERM to the processes that the leader left behind, then SIGKILL. Then remove their container."""
        kill_at, pause_s = time.monotonic() + LEFTOVER_GRACE_S, 0.05
        signalled = False
        while self._has_children():
            if not signalled:
                self.leftovers = process_tree.signal_descendants(os.getpid(), signal.SIGTERM, signal.SIGCONT)
                signalled = True
            elif time.monotonic() >= kill_at:
                process_tree.signal_descendants(os.getpid(), signal.SIGKILL)
                # a process stuck in a driver cannot be killed: keep trying, less often
                pause_s = min(2 * pause_s, RETRY_S)
            self._wait_for_signal(pause_s)
        if self.spec["container"] and containers.start_removal(self.run_dir, self.log_fd):
            while self._has_children():
                self._wait_for_signal(RETRY_S)

    def _has_children(self) -> bool:
        self._reap()
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True

    def _classify_exit(self, *, out_of_ram: bool) -> None:
        if self.status is None:
            return
        self.code = os.waitstatus_to_exitcode(self.status)
        if self.code and not self.why:
            self.why, self.detail = (OUT_OF_RAM, "") if out_of_ram else containers.read_reason(self.spec)
        if self.why == TIMEOUT and self.spec["requeue"] and self._has_saved():
            self.why = run_files.SAVED_AT_LIMIT
        if self.why == OUT_OF_RAM:
            self.detail = self.limits.describe_excess()
        logs = (run_files.LOG, *((run_files.ERROR_LOG,) if self.spec["error"] else ()))
        if self.code and not self.why:
            begins = [run_files.read_begin(log) for log in logs]
            with rights_of(self.account):
                tails = [oom.read_tail(log, begin) for log, begin in zip(logs, begins, strict=True)]
            self.why = "oom" if any(map(oom.is_gpu_oom, tails)) else ""

    def _has_saved(self) -> bool:
        """Return whether the run lived on after its signal, or wrote a checkpoint."""
        if self.spec["signal"]:
            return True
        with rights_of(self.account):
            return run_folder.has_checkpoint(self.started_at)

    def _run_keys(self) -> dict[str, Any]:
        return {"job": self.spec["job"], "run": self.spec["run"], "token": self.spec["token"], "shim": self.shim_id}

    def _write_record(self, content: bytes) -> None:
        """Overwrite the record in one write, so that readers see the old or the new content."""
        os.pwrite(self.record_fd, content.ljust(self.record_bytes), 0)
        self.record_bytes = max(self.record_bytes, len(content))

    def _exit_record(self) -> dict[str, Any]:
        code = self.code
        return {
            "is": "exited",
            **self._run_keys(),
            "code": code if code is None or code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "why": self.why,
            "detail": self.detail[:500],
            "done": self.dir_fd >= 0 and run_folder.is_done(self.account),
            "started_at": self.started_at,
            "at": time.time(),
            "ran_s": round(time.monotonic() - self.started, 6) if self.started else 0.0,
            "cpu_s": round(self.cpu_s, 6),
            "shim_cpu_s": round(time.process_time() - self.cpu_before_s, 6),
            "max_rss_mb": self.max_rss_kb // 1024,
            "leftovers": self.leftovers,
        }

    def _write_exit(self) -> bool:
        """Write the exit into the reserved blocks, and retry until it works.

        Return False if the directory is gone: then only the end of this process shows that the run is over.
        """
        os.fchdir(self.dir_fd)
        message = run_files.to_json(self._exit_record())
        while True:
            try:
                self._write_record(message)
                os.ftruncate(self.record_fd, self.record_bytes)
                os.fsync(self.record_fd)
                os.rename(self.record_name, run_files.EXIT)
                recorded = True
                break
            except FileNotFoundError:
                recorded = False
                break
            except OSError:
                time.sleep(RETRY_S)
        self._notify(message)
        return recorded

    def _notify(self, message: bytes) -> None:
        notify.send(self.spec["bell_dir"], message)
        if self.dir_fd >= 0:
            os.fchdir(self.dir_fd)
