"""The keeper of a task: starts it, copies its log, judges its end and writes its marker.

It works inside the run, so the outcome does not depend on the scheduler or on tmux being alive. It imports little,
since every task starts one.
"""

from __future__ import annotations

import os
import time

from weft.workspace.task.task_log import IGNORE_OS_ERRORS, MAX_LOG_BYTES, TaskLog
from weft.workspace.task.verdict import LINGER_S, verdict

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    import signal
else:
    try:
        import _signal as signal  # without the enums of `signal`, which take as long to load as this module
    except ImportError:
        import signal

CANNOT_START = 127
"""Exit code of a task whose command cannot be started."""
GRACE_S = 10.0
"""Time between SIGTERM and SIGKILL for a process that outlives its marker."""
POLL_S = (0.05, 1.0)
"""Shortest and longest time between two copies of the log and checks for the marker."""
AWAITED_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SET_BY_ENGINE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""Variables that already name the task's GPU."""


class Keeper:
    """The parent process of a task's command."""

    def __init__(self, settings: dict[str, str], command: list[str]) -> None:
        self.task, self.command = settings["task"], command
        self.marker, self.settings = settings["marker"], settings
        self.linger_s = float(settings.get("linger") or LINGER_S)
        self.gpu = os.environ.get("WEFT_GPU_IDS", "")
        self.run = os.environ.get("WEFT_RUN", "1")
        self.folder = os.path.dirname(os.environ.get("WEFT_DONE_FILE", ""))
        self.child = -1
        self.code: int | None = None
        self.was_stopped = self.ended_by_us = False
        self.log = TaskLog(self.task, settings["owner"], self.folder, int(settings.get("log_cap") or MAX_LOG_BYTES))
        self.began = self.marked_at = 0.0

    # ---- from start to end

    def execute(self) -> int:
        """Run the command to its end. Return the exit code of the job."""
        signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED_SIGNALS)
        self.log.open(self.settings.get("logs", ""), self.settings.get("scheduler_log", ""))
        self._rename_old_marker()
        if self._is_marked():
            self.log.write("already complete: its marker exists")
            return 0
        if not self._wait_for_turn():
            return 128 + signal.SIGTERM
        self.log.write(f"run {self.run} on GPU {self.gpu or '-'}")
        try:
            self._start()
        except OSError as error:
            self.log.write(f"cannot start {self.command[0]!r}: {error.strerror}", to_task=True)
            return CANNOT_START
        self._wait()
        while self.was_stopped and self._has_members():  # conda has ended; the program in it may be saving
            time.sleep(POLL_S[0])
        return self._judge()

    def _has_members(self) -> bool:
        """Return whether a wrapped command's process group still has members."""
        try:
            os.killpg(self.child, 0)
        except OSError:
            return False
        return bool(self.settings.get("wrapped"))

    def _start(self) -> None:
        env = dict(os.environ)
        name = self.settings.get("variable", "")
        if name and name not in SET_BY_ENGINE:
            env[name] = self.gpu
        self.began = time.monotonic()
        self.child = os.posix_spawnp(
            self.command[0], self.command, env, setpgroup=0, setsigmask=(), setsigdef=AWAITED_SIGNALS
        )

    def _wait(self) -> None:
        """Wait until the command has ended. End it if it outlives its marker."""
        pause = POLL_S[0]
        kill_at = 0.0
        while self.code is None:
            got = signal.sigtimedwait(AWAITED_SIGNALS, pause)
            if got is not None and got.si_signo != signal.SIGCHLD:
                self._forward(got.si_signo)
            self._reap()
            pause = POLL_S[0] if self.log.copy() else min(pause * 2, POLL_S[1])
            if self.code is not None:
                return
            now = time.monotonic()
            self.marked_at = (self.marked_at or now) if self._is_marked() else 0.0
            marked_for_s = now - self.marked_at if self.marked_at else 0.0
            if verdict(marked=self.marked_at > 0, marked_for_s=marked_for_s, linger_s=self.linger_s) == "overdue":
                if not self.ended_by_us:
                    self.log.write(f"still alive {marked_for_s:.0f} s after its marker: stopping it", to_task=True)
                    self.ended_by_us, kill_at = True, now + GRACE_S
                    self._signal(signal.SIGTERM)
                elif now > kill_at:
                    self._signal(signal.SIGKILL)

    def _judge(self) -> int:
        """Log the verdict, write the marker if due, and return the exit code of the job."""
        assert self.code is not None
        took_s, code = time.monotonic() - self.began, self.code
        found = verdict(marked=self._is_marked(), code=code)
        if self.was_stopped and found == "unmarked":  # exit code 0 after a stop does not mean completion
            self.log.write(f"stopped after {took_s:.1f} s")
            return 0
        if found == "unmarked":
            self._write_marker(took_s)
        elif found == "warned" and not self.ended_by_us:
            self.log.warn(f"exit code {code}, but its marker exists: it counts as complete")
        elif found == "warned":
            self.log.warn("it outlived its marker and was ended")
        elif found == "failed":
            how = "stopped" if self._was_told_to_stop() else f"failed with exit code {code}"
            self.log.write(f"{how} after {took_s:.1f} s")
            return code
        if self.was_stopped:
            with IGNORE_OS_ERRORS:  # complete, although a stop was in progress
                os.close(os.open(os.path.join(self.folder, "done"), os.O_WRONLY | os.O_CREAT, 0o600))
        self.log.write(f"complete after {took_s:.1f} s")
        return 0

    def _was_told_to_stop(self) -> bool:
        """Return whether the task was cancelled or preempted. Its end may be known before the signal arrives."""
        return self.was_stopped or os.path.exists(os.path.join(self.folder, "stop.json"))

    # ---- signals

    def _forward(self, number: int) -> None:
        """Send the task a signal that only the keeper got. A stop of the whole run reaches the task by itself."""
        self.was_stopped = True
        preempted = os.path.exists(os.environ.get("WEFT_PREEMPT_FILE", ""))
        if preempted or not os.path.exists(os.path.join(self.folder, "stop.json")):
            self._signal(number)

    def _signal(self, number: int) -> None:
        whole_group = self.settings.get("wrapped") or number == signal.SIGKILL  # conda does not forward signals
        with IGNORE_OS_ERRORS:
            os.killpg(self.child, number) if whole_group else os.kill(self.child, number)

    def _reap(self) -> None:
        pid, status = os.waitpid(self.child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            self.code = 128 - code if code < 0 else code

    def _wait_for_turn(self) -> bool:
        """Wait for the task's turn to start on its GPU. Return False if a signal stopped it meanwhile."""
        delay_s, path = float(self.settings.get("delay") or "0"), self.settings.get("turns", "")
        if not (delay_s and path and self.gpu):
            return True
        from weft.workspace.task.start_turns import reserve_turn

        end = time.monotonic() + reserve_turn(f"{path}-{self.gpu}", delay_s)
        while (left := end - time.monotonic()) > 0:
            got = signal.sigtimedwait((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), left)
            if got is not None:
                return False
        return True

    # ---- the marker

    def _is_marked(self) -> bool:
        return os.path.exists(self.marker)

    def _rename_old_marker(self) -> None:
        """With `again`, rename a marker that is older than the job, so that it does not count."""
        since = float(self.settings.get("again") or "0")
        with IGNORE_OS_ERRORS:
            if since and os.stat(self.marker).st_mtime < since:
                os.rename(self.marker, f"{self.marker}.before")

    def _write_marker(self, took_s: float) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime())
        text = f"task: {self.task}\ntime: {stamp}\ngpu: {self.gpu or '-'}\nduration_s: {took_s:.3f}\nexit_code: 0\n"
        temporary = f"{self.marker}.{os.getpid()}.tmp"
        try:
            os.makedirs(os.path.dirname(self.marker), exist_ok=True)
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, self.marker)
        except OSError as error:
            self.log.warn(f"its marker cannot be written: {error.strerror}")


def main(words: list[str]) -> int:
    at = words.index("--")
    settings = dict(word.partition("=")[::2] for word in words[:at])
    keeper = Keeper(settings, words[at + 1 :])
    try:
        return keeper.execute()
    finally:
        keeper.log.copy()
