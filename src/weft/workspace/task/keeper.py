"""Beside a task for as long as it runs: starts it, keeps its log, judges its end, writes its marker.

All of it is done here, inside the run, so that it does not matter who else is alive: the scheduler, tmux, or nobody.
Stands alone and imports little: it is started for every task, and costs what it loads.
"""

from __future__ import annotations

import os
import time

from weft.workspace.task.task_log import MAY_FAIL, TaskLog
from weft.workspace.task.verdict import LINGER_S, verdict

TYPE_CHECKING = False  # as typing has it, without loading it
if TYPE_CHECKING:
    import signal
else:
    try:
        import _signal as signal  # without the enums of `signal`, which take as long to load as all of this
    except ImportError:
        import signal

NOT_STARTED = 127
GRACE_S = 10.0
"""What a process gets that is told to end because its marker is there."""
LOOK_S = (0.05, 1.0)
"""How often the log is copied and the marker looked for: soon at first, then less."""
AWAITED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GIVEN_BY_ENGINE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


class Keeper:
    def __init__(self, settings: dict[str, str], command: list[str]) -> None:
        self.task, self.command = settings["task"], command
        self.marker, self.settings = settings["marker"], settings
        self.linger_s = float(settings.get("linger") or LINGER_S)
        self.gpu = os.environ.get("WEFT_GPU_IDS", "")
        self.run = os.environ.get("WEFT_RUN", "1")
        self.folder = os.path.dirname(os.environ.get("WEFT_DONE_FILE", ""))
        self.child = -1
        self.code: int | None = None
        self.told = self.ended_by_us = False
        self.log = TaskLog(self.task, settings["owner"], self.folder)
        self.began = self.marked_at = 0.0

    # ---- from start to end

    def keep(self) -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
        self.log.open(self.settings.get("logs", ""), self.settings.get("scheduler_log", ""))
        self._forget_old_marker()
        if self._is_marked():
            self.log.say("its marker is there: nothing is left to do")
            return 0
        if not self._stagger():
            return 128 + signal.SIGTERM
        self.log.say(f"run {self.run} on GPU {self.gpu or '-'}")
        try:
            self._start()
        except OSError as error:
            self.log.say(f"cannot start {self.command[0]!r}: {error.strerror}", loud=True)
            return NOT_STARTED
        self._wait()
        while self.told and self._has_others():  # conda has gone; who works in it may be saving
            time.sleep(LOOK_S[0])
        return self._judge()

    def _has_others(self) -> bool:
        try:
            os.killpg(self.child, 0)
        except OSError:
            return False
        return bool(self.settings.get("wrapped"))

    def _start(self) -> None:
        env = dict(os.environ)
        name = self.settings.get("variable", "")
        if name and name not in GIVEN_BY_ENGINE:
            env[name] = self.gpu
        self.began = time.monotonic()
        self.child = os.posix_spawnp(self.command[0], self.command, env, setpgroup=0, setsigmask=(), setsigdef=AWAITED)

    def _wait(self) -> None:
        pause = LOOK_S[0]
        kill_at = 0.0
        while self.code is None:
            got = signal.sigtimedwait(AWAITED, pause)
            if got is not None and got.si_signo != signal.SIGCHLD:
                self._pass_on(got.si_signo)
            self._reap()
            pause = LOOK_S[0] if self.log.copy() else min(pause * 2, LOOK_S[1])
            if self.code is not None:
                return
            now = time.monotonic()
            self.marked_at = (self.marked_at or now) if self._is_marked() else 0.0
            marked_for_s = now - self.marked_at if self.marked_at else 0.0
            if verdict(marked=self.marked_at > 0, marked_for_s=marked_for_s, linger_s=self.linger_s) == "overdue":
                if not self.ended_by_us:
                    self.log.say(f"still alive {marked_for_s:.0f} s after its marker: told to end", loud=True)
                    self.ended_by_us, kill_at = True, now + GRACE_S
                    self._signal(signal.SIGTERM)
                elif now > kill_at:
                    self._signal(signal.SIGKILL)

    def _judge(self) -> int:
        assert self.code is not None
        took_s, code = time.monotonic() - self.began, self.code
        found = verdict(marked=self._is_marked(), code=code)
        if self.told and found == "unmarked":  # it was stopped, and did not say that it was done
            self.log.say(f"stopped after {took_s:.1f} s")
            return 0
        if found == "unmarked":
            self._write_marker(took_s)
        elif found == "warned" and not self.ended_by_us:
            self.log.warn(f"exit code {code}, but its marker is there: it counts as complete")
        elif found == "warned":
            self.log.warn("it lived on after its marker, and was ended")
        elif found == "failed":
            self.log.say(f"failed with exit code {code} after {took_s:.1f} s")
            return code
        if self.told:
            with MAY_FAIL:  # done, although it was being stopped
                os.close(os.open(os.path.join(self.folder, "done"), os.O_WRONLY | os.O_CREAT, 0o600))
        self.log.say(f"complete after {took_s:.1f} s")
        return 0

    # ---- signals

    def _pass_on(self, number: int) -> None:
        """Where everybody was told, the task was too; where only we were, it must be."""
        self.told = True
        preempted = os.path.exists(os.environ.get("WEFT_PREEMPT_FILE", ""))
        if preempted or not os.path.exists(os.path.join(self.folder, "stop.json")):
            self._signal(number)

    def _signal(self, number: int) -> None:
        everybody = self.settings.get("wrapped") or number == signal.SIGKILL  # conda passes no signals on
        with MAY_FAIL:
            os.killpg(self.child, number) if everybody else os.kill(self.child, number)

    def _reap(self) -> None:
        pid, status = os.waitpid(self.child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            self.code = 128 - code if code < 0 else code

    def _stagger(self) -> bool:
        """Waits for its turn on the GPU; False: it was told to stop meanwhile."""
        delay_s, path = float(self.settings.get("delay") or "0"), self.settings.get("turns", "")
        if not (delay_s and path and self.gpu):
            return True
        from weft.workspace.task.start_turns import turn

        end = time.monotonic() + turn(f"{path}-{self.gpu}", delay_s)
        while (left := end - time.monotonic()) > 0:
            got = signal.sigtimedwait((signal.SIGTERM, signal.SIGINT, signal.SIGHUP), left)
            if got is not None:
                return False
        return True

    # ---- the marker

    def _is_marked(self) -> bool:
        return os.path.exists(self.marker)

    def _forget_old_marker(self) -> None:
        """With `again`, what was complete before this job was submitted does not count."""
        since = float(self.settings.get("again") or "0")
        with MAY_FAIL:
            if since and os.stat(self.marker).st_mtime < since:
                os.rename(self.marker, f"{self.marker}.before")

    def _write_marker(self, took_s: float) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime())
        text = f"task: {self.task}\ntime: {stamp}\ngpu: {self.gpu or '-'}\nduration_s: {took_s:.3f}\nexit_code: 0\n"
        beside = f"{self.marker}.{os.getpid()}.tmp"
        try:
            os.makedirs(os.path.dirname(self.marker), exist_ok=True)
            with open(beside, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.rename(beside, self.marker)
        except OSError as error:
            self.log.warn(f"its marker cannot be written: {error.strerror}")


def main(words: list[str]) -> int:
    at = words.index("--")
    settings = dict(word.partition("=")[::2] for word in words[:at])
    keeper = Keeper(settings, words[at + 1 :])
    try:
        return keeper.keep()
    finally:
        keeper.log.copy()
