"""One process for each GPU of a node: `ranks.py FIRST_RANK COUNT COMMAND...`. Run as a script, by a bare Python.

All see all GPUs of the run here, and know by LOCAL_RANK which is theirs, as under torchrun. If one fails, the others
are told to end, and killed if they do not. It exits with the code of the first that failed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from typing import Final

TEARDOWN_S: Final = 10.0
"""What the others get to end by themselves once one has failed."""
PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126


class Ranks:
    def __init__(self, first: int, count: int, argv: list[str]) -> None:
        self.first, self.count, self.argv = first, count, argv
        self.living: set[int] = set()
        self.code = 0
        self.told = False
        self.kill_at: float | None = None

    def run(self) -> int:
        program = shutil.which(self.argv[0])
        if program is None:
            if os.path.isfile(self.argv[0]):
                _say(f"{self.argv[0]!r} may not be executed: check its permissions")
                return NOT_EXECUTABLE
            _say(f"no program {self.argv[0]!r} in PATH={os.environ.get('PATH', '')!r}")
            return NOT_FOUND
        # collected one by one with what else comes in: no handler ever runs beside the rest
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *PASSED_ON})
        for local in range(self.count):
            try:
                self.living.add(self._start(program, local))
            except OSError as error:
                _say(f"cannot execute {program!r}: {error.strerror}")
                self._failed(NOT_EXECUTABLE)
                break
        while self.living:
            self._wait()
        return self.code

    def _start(self, program: str, local: int) -> int:
        env = {**os.environ, "RANK": str(self.first + local), "LOCAL_RANK": str(local)}
        ids = env.get("WEFT_GPU_IDS", "").split(",")
        env["WEFT_GPU_ID"] = ids[local] if local < len(ids) else ""
        return os.posix_spawn(program, self.argv, env, setsigmask=())

    def _wait(self) -> None:
        left_s = 1.0 if self.kill_at is None else max(0.0, min(1.0, self.kill_at - time.monotonic()))
        got = signal.sigtimedwait({signal.SIGCHLD, *PASSED_ON}, left_s)
        if got is not None and got.si_signo != signal.SIGCHLD:
            # from here on each ends in its own time; whoever told us sees to it that all do
            self.told = self.told or got.si_signo in (signal.SIGTERM, signal.SIGINT)
            self._tell(got.si_signo)
        self._collect()
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            self._tell(signal.SIGKILL)
            self.kill_at += 1.0

    def _collect(self) -> None:
        for pid in tuple(self.living):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self.living.discard(pid)
                code = os.waitstatus_to_exitcode(status)
                if code:
                    self._failed(code if code > 0 else 128 - code)

    def _failed(self, code: int) -> None:
        self.code = self.code or code
        if self.kill_at is None and not self.told:
            self.kill_at = time.monotonic() + TEARDOWN_S
            self._tell(signal.SIGTERM)

    def _tell(self, number: int) -> None:
        for pid in self.living:
            os.kill(pid, number)


def _say(text: str) -> None:
    sys.stderr.write(f"weft: {text}\n")


if __name__ == "__main__":
    sys.exit(Ranks(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]).run())
