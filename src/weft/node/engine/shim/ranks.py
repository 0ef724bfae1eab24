"""Start one process per GPU of a node: `ranks.py FIRST_RANK COUNT COMMAND...`. Runs as a script, in a bare Python.

Every process sees all GPUs of the run on this node and picks its own by LOCAL_RANK, as under torchrun. If one fails,
the others get SIGTERM and then SIGKILL. The script exits with the code of the first process that failed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from typing import Final

TEARDOWN_S: Final = 10.0
"""Time between SIGTERM and SIGKILL for the other processes once one has failed."""
FORWARDED_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126


class Ranks:
    def __init__(self, first: int, count: int, argv: list[str]) -> None:
        self.first, self.count, self.argv = first, count, argv
        self.living: set[int] = set()
        self.code = 0
        self.stopping = False
        self.kill_at: float | None = None

    def run(self) -> int:
        program = shutil.which(self.argv[0])
        if program is None:
            if os.path.isfile(self.argv[0]):
                _log(f"{self.argv[0]!r} is not executable: check its permissions")
                return NOT_EXECUTABLE
            _log(f"program {self.argv[0]!r} not found in PATH={os.environ.get('PATH', '')!r}")
            return NOT_FOUND
        # blocked signals are collected one by one in _wait, so no handler interrupts the rest
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *FORWARDED_SIGNALS})
        for local_rank in range(self.count):
            try:
                self.living.add(self._start(program, local_rank))
            except OSError as error:
                _log(f"cannot execute {program!r}: {error.strerror}")
                self._on_failure(NOT_EXECUTABLE)
                break
        while self.living:
            self._wait()
        return self.code

    def _start(self, program: str, local_rank: int) -> int:
        env = {**os.environ, "RANK": str(self.first + local_rank), "LOCAL_RANK": str(local_rank)}
        if "SLURM_PROCID" in env:
            env |= {"SLURM_PROCID": env["RANK"], "SLURM_LOCALID": env["LOCAL_RANK"]}
        gpu_ids = env.get("WEFT_GPU_IDS", "").split(",")
        env["WEFT_GPU_ID"] = gpu_ids[local_rank] if local_rank < len(gpu_ids) else ""
        return os.posix_spawn(program, self.argv, env, setsigmask=())

    def _wait(self) -> None:
        left_s = 1.0 if self.kill_at is None else max(0.0, min(1.0, self.kill_at - time.monotonic()))
        got = signal.sigtimedwait({signal.SIGCHLD, *FORWARDED_SIGNALS}, left_s)
        if got is not None and got.si_signo != signal.SIGCHLD:
            # a requested stop has no deadline here: the sender escalates if processes remain
            self.stopping = self.stopping or got.si_signo in (signal.SIGTERM, signal.SIGINT)
            self._signal_all(got.si_signo)
        self._collect()
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            self._signal_all(signal.SIGKILL)
            self.kill_at += 1.0

    def _collect(self) -> None:
        for pid in tuple(self.living):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self.living.discard(pid)
                code = os.waitstatus_to_exitcode(status)
                if code:
                    self._on_failure(code if code > 0 else 128 - code)

    def _on_failure(self, code: int) -> None:
        self.code = self.code or code
        if self.kill_at is None and not self.stopping:
            self.kill_at = time.monotonic() + TEARDOWN_S
            self._signal_all(signal.SIGTERM)

    def _signal_all(self, number: int) -> None:
        for pid in self.living:
            os.kill(pid, number)


def _log(text: str) -> None:
    sys.stderr.write(f"weft: {text}\n")


if __name__ == "__main__":
    sys.exit(Ranks(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]).run())
