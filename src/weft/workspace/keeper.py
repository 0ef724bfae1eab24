"""Beside a task for as long as it runs: starts it, keeps its log, judges its end, writes its marker.

All of it is done here, inside the run, so that it does not matter who else is alive: the scheduler, tmux, or nobody.
Stands alone and imports little: it is started for every task, and costs what it loads.
"""

from __future__ import annotations

import os
import sys
import time

from weft.workspace.safelog import open_log
from weft.workspace.verdict import verdict

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
CHUNK = 1 << 20
AWAITED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
GIVEN_BY_ENGINE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


class _MayFail:
    """As contextlib.suppress(OSError) has it, without loading that."""

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, OSError)


_MAY_FAIL = _MayFail()


class Keeper:
    def __init__(self, settings: dict[str, str], command: list[str]) -> None:
        self.task, self.command = settings["task"], command
        self.marker, self.owner = settings["marker"], settings["owner"]
        self.linger_s = float(settings.get("linger") or "60")
        self.settings = settings
        self.gpu = os.environ.get("WEFT_GPU_IDS", "")
        self.run = os.environ.get("WEFT_RUN", "1")
        self.folder = os.path.dirname(os.environ.get("WEFT_DONE_FILE", ""))
        self.child = -1
        self.code: int | None = None
        self.told = self.ended_by_us = False
        self.copied, self.source, self.copy, self.log = 0, -1, -1, -1
        self.began, self.marked_at = time.time(), 0.0

    # ---- from start to end

    def keep(self) -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
        self._open_logs()
        self._forget_old_marker()
        if self._is_marked():
            self.say("its marker is there: nothing is left to do")
            return 0
        if not self._stagger():
            return 128 + signal.SIGTERM
        self.say(f"run {self.run} on GPU {self.gpu or '-'}")
        try:
            self._start()
        except OSError as error:
            self.say(f"cannot start {self.command[0]!r}: {error.strerror}", loud=True)
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
        self.began = time.time()
        self.child = os.posix_spawnp(self.command[0], self.command, env, setpgroup=0, setsigmask=(), setsigdef=AWAITED)

    def _wait(self) -> None:
        pause = LOOK_S[0]
        kill_at = 0.0
        while self.code is None:
            got = signal.sigtimedwait(AWAITED, pause)
            if got is not None and got.si_signo != signal.SIGCHLD:
                self._pass_on(got.si_signo)
            self._reap()
            pause = LOOK_S[0] if self._copy() else min(pause * 2, LOOK_S[1])
            if self.code is not None:
                return
            now = time.time()
            self.marked_at = (self.marked_at or now) if self._is_marked() else 0.0
            lingers = now - self.marked_at if self.marked_at else 0.0
            # the table's 60 s; tests have less patience
            scaled = lingers * 60.0 / self.linger_s if self.linger_s else 60.0
            if verdict(marked=self.marked_at > 0, marked_for_s=scaled) == "overdue":
                if not self.ended_by_us:
                    self.say(f"still alive {lingers:.0f} s after its marker: told to end", loud=True)
                    self.ended_by_us, kill_at = True, now + GRACE_S
                    self._signal(signal.SIGTERM)
                elif now > kill_at:
                    self._signal(signal.SIGKILL)

    def _judge(self) -> int:
        assert self.code is not None
        took_s, code = time.time() - self.began, self.code
        found = verdict(marked=self._is_marked(), code=code)
        if self.told and found == "unmarked":  # it was stopped, and did not say that it was done
            self.say(f"stopped after {took_s:.1f} s")
            return 0
        if found == "unmarked":
            self._write_marker(took_s)
        elif found == "warned" and not self.ended_by_us:
            self._note(f"exit code {code}, but its marker is there: it counts as complete")
        elif found == "warned":
            self._note("it lived on after its marker, and was ended")
        elif found == "failed":
            self.say(f"failed with exit code {code} after {took_s:.1f} s")
            return code
        if self.told:
            with _MAY_FAIL:  # done, although it was being stopped
                os.close(os.open(os.path.join(self.folder, "done"), os.O_WRONLY | os.O_CREAT, 0o600))
        self.say(f"complete after {took_s:.1f} s")
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
        with _MAY_FAIL:
            os.killpg(self.child, number) if everybody else os.kill(self.child, number)

    def _reap(self) -> None:
        pid, status = os.waitpid(self.child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            self.code = 128 - code if code < 0 else code

    def _stagger(self) -> bool:
        """Waits for its turn on the GPU; False: it was told to stop meanwhile."""
        delay_s, path = float(self.settings.get("delay") or "0"), self.settings.get("turns", "")
        wait_s = turn(f"{path}-{self.gpu}", delay_s) if delay_s and path and self.gpu else 0.0
        end = time.monotonic() + wait_s
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
        with _MAY_FAIL:
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
            self._note(f"its marker cannot be written: {error.strerror}")

    # ---- what is said

    def _open_logs(self) -> None:
        folder = self.settings.get("logs", "")
        if not folder:
            return
        try:
            self.log, _ = open_log(folder, self.settings["scheduler_log"], self.owner)
            self.copy, _ = open_log(os.path.join(folder, "train_logs"), f"{self.task}.log", f"{self.owner}#{self.task}")
        except OSError as error:
            self._note(f"no log in {folder}: {error.strerror}")

    def say(self, text: str, *, loud: bool = False) -> None:
        """Into the scheduler's log; loudly, into the task's own too."""
        if loud:
            os.write(2, f"weft: {text}\n".encode(errors="backslashreplace"))
        if self.log >= 0:
            stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime())
            with _MAY_FAIL:
                os.write(self.log, f"{stamp} {self.task}: {text}\n".encode(errors="backslashreplace"))

    def _note(self, text: str) -> None:
        """A warning: said, and kept beside the run for `status`."""
        self.say(f"warning: {text}", loud=True)
        with _MAY_FAIL, open(os.path.join(self.folder, "warning"), "a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def _copy(self) -> bool:
        """What the run wrote since the last look goes into the task's log; whether there was anything."""
        if self.copy < 0:
            return False
        try:
            if self.source < 0:
                self.source = os.open(os.path.join(self.folder, "output.log"), os.O_RDONLY | os.O_CLOEXEC)
            size = os.fstat(self.source).st_size
            if size < self.copied:  # cut at its cap
                self.copied = 0
            before = self.copied
            while self.copied < size:
                text = os.pread(self.source, CHUNK, self.copied)
                if not text:
                    break
                self.copied += os.write(self.copy, text)
        except OSError:
            return False
        return self.copied > before

    def close(self) -> None:
        self._copy()


def turn(path: str, delay_s: float) -> float:
    """How long to wait for one's turn: turns are `delay_s` apart. The file's time is that of the latest turn."""
    import fcntl

    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return 0.0
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        now, found = time.time(), os.fstat(handle)
        last = found.st_mtime if found.st_size else 0.0
        mine = max(now, last + delay_s)
        if mine - now > 1000 * delay_s:  # the clock was set back
            mine = now
        os.pwrite(handle, b".", 0)
        os.utime(handle, (mine, mine))
        return mine - now
    finally:
        os.close(handle)


def main(words: list[str]) -> int:
    at = words.index("--")
    settings = dict(word.partition("=")[::2] for word in words[:at])
    keeper = Keeper(settings, words[at + 1 :])
    try:
        return keeper.keep()
    finally:
        keeper.close()
        sys.stdout.flush()
