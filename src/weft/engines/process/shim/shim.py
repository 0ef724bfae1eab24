"""One run, from its claim to its exit record. Forked by the starter, the process needs nobody after that.

Everything is synchronous: signals are blocked and waited for, so there are no handlers and no threads.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from typing import Any, Final

from weft.engines.process import lease
from weft.engines.process.shim import launch, notify, oom, process_tree, run_files
from weft.engines.process.shim.log_rotation import rotate_when_over
from weft.engines.process.shim.process_id import identify
from weft.engines.process.shim.stop_escalation import NO_FILE, Act, StopEscalation, first_step

POKE: Final = signal.SIGUSR1
"""Sent to a shim: there is a new stop request."""
LEFTOVER_GRACE_S: Final = 2.0
RECORD_BYTES: Final = 4096
RETRY_S: Final = 1.0
LOUD: Final[dict[Act, int]] = {"warn": signal.SIGRTMIN + 1, "term": signal.SIGRTMIN + 2, "kill": signal.SIGRTMIN + 3}
"""Sent where the stop request cannot be written down: the disk is full, perhaps of what this very run writes."""
_HEARD: Final = {number: act for act, number in LOUD.items()}
_AWAITED: Final = (signal.SIGCHLD, POKE, *LOUD.values())

Order = dict[str, Any]


class Shim:
    """Keeps one command: starts it, waits, makes it end when it must, and writes down how it went."""

    def __init__(self, order: Order, raw: bytes) -> None:
        self.order, self.raw, self.me = order, raw, identify(os.getpid())
        self.cpu_before_s = time.process_time()
        self.folder = order["dir"]
        self.home = self.record = self.log = self.leader = -1
        self.name, self.length = run_files.CLAIM, 0
        self.status: int | None = None
        self.cpu_s, self.max_rss_kb, self.leftovers = 0.0, 0, 0
        self.code: int | None = None
        self.why = self.detail = ""
        self.started_at = self.started = self.lease_until = 0.0

    def run(self) -> bool:
        """The whole run; whether this process may serve another."""
        try:
            if not self._claim():
                return True
        except OSError as error:
            self._give_up(error)
            return False
        try:
            self._keep()
        except Exception as error:
            # whatever went wrong here, the run must not stay without an end
            self.why, self.detail = "shim-error", repr(error)
            self._end_everybody()
        kept = self._finish()
        for handle in (self.record, self.home, self.log):
            os.close(handle)
        return kept

    def _keep(self) -> None:
        stop = self._stop_request()
        if stop is not None or self._lease_has_ended():
            self.why = stop[0] if stop is not None else lease.ENDED
            return
        try:
            self._start()
        except launch.Refused as refused:
            self.code, self.why, self.detail = refused.code, refused.why, refused.detail
            self._log(refused.detail)
            return
        self._wait()
        self._end_everybody()
        self._judge()

    # ---- starting

    def _claim(self) -> bool:
        """Take the run, and the disk blocks of its exit record; False: an engine has given the run up."""
        run_files.make_dirs(self.folder)
        self.home = os.open(self.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fchdir(self.home)
        try:
            self.record = os.open(run_files.CLAIM, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            os.close(self.home)
            return False
        try:
            os.posix_fallocate(self.record, 0, RECORD_BYTES)
            self._write(run_files.to_json({"is": "claimed", **self._names()}))
            run_files.write_new(run_files.SPEC, self.raw)
            if self.order["params"]:
                run_files.write_new(run_files.PARAMS, run_files.to_json(self.order["params"]))
            if self.order["hostfile"]:
                run_files.write_new(run_files.HOSTFILE, self.order["hostfile"].encode())
            with contextlib.suppress(FileExistsError):
                os.mkdir(f"../{run_files.CHECKPOINTS}", 0o700)
            self.log = os.open(run_files.LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            os.unlink(run_files.CLAIM)
            raise
        return True

    def _give_up(self, error: OSError) -> None:
        """Nothing could be written, so nothing was started: whoever listens is told, and no record is left."""
        self.why = "disk-full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "no-files"
        self.detail = f"cannot write in {self.folder!r}: {error.strerror}"
        self._ring(run_files.to_json(self._exit()))

    def _start(self) -> None:
        order = self.order
        self.leader = launch.launch(
            order["argv"], order["env"], order["chdir"] or self.folder, self.log, order["umask"]
        )
        self.started_at, self.started = time.time(), time.monotonic()
        os.fchdir(self.home)
        started = {"is": "started", **self._names(), "leader": identify(self.leader), "at": self.started_at}
        message = run_files.to_json(started)
        with contextlib.suppress(OSError):  # the claim names the shim, too: that is enough to find the run by
            self._write(message)
            os.rename(run_files.CLAIM, run_files.STARTED)
            self.name = run_files.STARTED
        self._ring(message)

    def _log(self, text: str) -> None:
        with contextlib.suppress(OSError):
            run_files.write_all(self.log, f"weft: {text}\n".encode(errors="backslashreplace"))

    # ---- working

    def _wait(self) -> None:
        """Until the leader has ended."""
        order = self.order
        ending = StopEscalation(self.started, order["time_limit_s"], order["grace_s"])
        while self._sleep(0.0):
            pass  # what is left of the run before
        cap, check_at = order["log_cap_bytes"], self.started + lease.LOOK_S
        looks = bool(cap or order["lease"])
        self._listen(ending, POKE)
        while not self._reap():
            now = time.monotonic()
            self._do(ending.due(now))
            if looks and now >= check_at:
                self._look(ending, cap)
                check_at = now + lease.LOOK_S
            due = [at for at in (ending.next_at(), check_at if looks else None) if at is not None]
            got = self._sleep(max(0.0, min(due) - now) if due else None)
            if got != signal.SIGCHLD:
                self._listen(ending, got)
        self.why = ending.why

    def _look(self, ending: StopEscalation, cap: int) -> None:
        """What is looked at every second."""
        if cap:
            rotate_when_over(cap)
        self._listen(ending, POKE)  # a poke may have failed, for want of descriptors
        if self._lease_has_ended() and not self._reap():
            self._do(ending.ask(time.monotonic(), lease.ENDED, min(lease.GRACE_S, self._grace("warn"))))

    def _lease_has_ended(self) -> bool:
        """The file is read only when what it said last has passed: a lease is never made shorter."""
        path = self.order["lease"]
        if path and lease.now() >= self.lease_until:
            self.lease_until = lease.read(path)
        return bool(path) and lease.now() >= self.lease_until

    def _listen(self, ending: StopEscalation, got: int) -> None:
        act = _HEARD.get(got)
        stop = self._stop_request() if act is None else (NO_FILE[act], self._grace(act))
        # a leader that has ended by itself was not stopped
        if stop is not None and not self._reap():
            self._do(ending.ask(time.monotonic(), *stop))

    def _stop_request(self) -> tuple[str, float] | None:
        stop = run_files.read_object(run_files.STOP)
        if stop is None:
            return None
        why = str(stop.get("why", "cancelled"))
        grace = stop.get("grace_s")
        return why, float(grace) if isinstance(grace, int | float) else self._grace(first_step(why))

    def _grace(self, act: Act) -> float:
        return 0.0 if act == "kill" else float(self.order["preempt_grace_s" if act == "warn" else "grace_s"])

    def _do(self, act: Act | None) -> None:
        if act is None:
            return
        if act == "warn":
            with contextlib.suppress(OSError):
                os.close(os.open(run_files.PREEMPT, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            # an unreaped child keeps its pid, so this cannot reach anybody else
            os.kill(self.leader, signal.SIGTERM)
            os.kill(self.leader, signal.SIGCONT)
        elif act == "term":
            process_tree.signal_descendants(os.getpid(), signal.SIGTERM, signal.SIGCONT)
        else:
            process_tree.signal_descendants(os.getpid(), signal.SIGKILL)

    def _reap(self) -> bool:
        """Collect who has died, orphans included; whether the leader has."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if not pid:
                return self.status is not None
            self.cpu_s += usage.ru_utime + usage.ru_stime
            self.max_rss_kb = max(self.max_rss_kb, usage.ru_maxrss)
            if pid == self.leader:
                self.status = status

    def _sleep(self, timeout_s: float | None) -> int:
        """Until a signal comes; which one, 0 for none."""
        if timeout_s is None:
            return signal.sigwaitinfo(_AWAITED).si_signo
        got = signal.sigtimedwait(_AWAITED, timeout_s)
        return got.si_signo if got else 0

    # ---- ending

    def _end_everybody(self) -> None:
        """What the leader left behind is told to end, then killed."""
        kill_at, pause_s = time.monotonic() + LEFTOVER_GRACE_S, 0.05
        told = False
        while self._has_children():
            if not told:
                self.leftovers = process_tree.signal_descendants(os.getpid(), signal.SIGTERM, signal.SIGCONT)
                told = True
            elif time.monotonic() >= kill_at:
                process_tree.signal_descendants(os.getpid(), signal.SIGKILL)
                pause_s = min(2 * pause_s, RETRY_S)  # somebody may be beyond killing, in a driver: stay, but quietly
            self._sleep(pause_s)

    def _has_children(self) -> bool:
        self._reap()
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True

    def _judge(self) -> None:
        if self.status is None:
            return
        self.code = os.waitstatus_to_exitcode(self.status)
        if self.code and not self.why and oom.ran_out(oom.tail(run_files.LOG)):
            self.why = "oom"

    def _names(self) -> dict[str, Any]:
        return {"job": self.order["job"], "run": self.order["run"], "token": self.order["token"], "shim": self.me}

    def _write(self, content: bytes) -> None:
        """Put this into the record, over what was there: whoever reads meanwhile finds one or the other."""
        os.pwrite(self.record, content.ljust(self.length), 0)
        self.length = max(self.length, len(content))

    def _exit(self) -> dict[str, Any]:
        code = self.code
        return {
            "is": "exited",
            **self._names(),
            "code": code if code is None or code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "why": self.why,
            "detail": self.detail[:500],
            "done": self.home >= 0 and os.path.exists(run_files.DONE),
            "started_at": self.started_at,
            "at": time.time(),
            "ran_s": round(time.monotonic() - self.started, 6) if self.started else 0.0,
            "cpu_s": round(self.cpu_s, 6),
            "shim_cpu_s": round(time.process_time() - self.cpu_before_s, 6),
            "max_rss_mb": self.max_rss_kb // 1024,
            "leftovers": self.leftovers,
        }

    def _finish(self) -> bool:
        """Write down the exit, in blocks that are already ours; try for as long as it takes.

        False: the directory has gone, and with it all that says that this run is over but our own end.
        """
        os.fchdir(self.home)
        message = run_files.to_json(self._exit())
        while True:
            try:
                self._write(message)
                os.ftruncate(self.record, self.length)
                os.fsync(self.record)
                os.rename(self.name, run_files.EXIT)
                kept = True
                break
            except FileNotFoundError:
                kept = False
                break
            except OSError:
                time.sleep(RETRY_S)
        self._ring(message)
        return kept

    def _ring(self, message: bytes) -> None:
        notify.ring(self.order["bell_dir"], message)
        if self.home >= 0:
            os.fchdir(self.home)
