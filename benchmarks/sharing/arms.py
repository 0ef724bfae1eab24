"""Arms of the comparison: the same training and the same requests, shared in different ways.

One training process and the servers live through all arms, which take turns of a few seconds: a slow minute of the
machine is then one of all arms.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.sharing.clock import cpu_seconds
from weft.train.device_page import layout, page
from weft.train.device_page.process import PAGES_VARIABLE

ROOT: Final = Path(__file__).parents[2]
START_S: Final = 180.0


@dataclass(frozen=True)
class Arm:
    """A way to share."""

    name: str
    rule: str = "off"
    is_idle: bool = False
    """True: training has the policy SCHED_IDLE of the kernel."""
    trains: bool = True
    serves: bool = True


@dataclass
class Outcome:
    """Latencies in seconds; steps and seconds on the pair's clock."""

    latencies: list[float] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0

    def quantile(self, part: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(int(part * len(ordered)), len(ordered) - 1)]

    @property
    def steps_per_s(self) -> float:
        return self.steps / self.seconds


class Pair:
    """A training process and its servers, on one core and one device page."""

    def __init__(self, memory: layout.Buffer, counter: Path, trainer: int, servers: dict[str, Server]) -> None:
        self._memory, self._counter, self._trainer, self._servers = memory, counter, trainer, servers
        self._factors: dict[Arm, float] = {}

    def play(self, arm: Arm, rate: float, settle_s: float, seconds: float, seed: int) -> Outcome:
        """Let the pair share for some seconds of its clock. An arm goes on with the factor that it had."""
        layout.set_rule(self._memory, arm.rule)
        layout.set_factor(self._memory, self._factors.get(arm, 1.0))
        policy = os.SCHED_IDLE if arm.is_idle else os.SCHED_OTHER
        os.sched_setscheduler(self._trainer, policy, os.sched_param(0))
        if not arm.serves:
            return self._train_alone(seconds)
        if not arm.trains:
            os.kill(self._trainer, signal.SIGSTOP)
        try:
            server = self._servers["dilu" if arm.rule == "dilu" else "prio"]
            trainer = self._trainer if arm.trains else 0
            found = server.ask(trainer=trainer, rate=rate, settle_s=settle_s, seconds=seconds, seed=seed)
        finally:
            os.kill(self._trainer, signal.SIGCONT)
        self._factors[arm] = layout.factor(self._memory)
        return Outcome(found["latencies"], found["steps"], found["seconds"])

    def _train_alone(self, seconds: float) -> Outcome:
        steps, cpu = read_steps(self._counter), cpu_seconds(self._trainer)
        while cpu_seconds(self._trainer) - cpu < seconds:
            time.sleep(0.05)
        return Outcome([], read_steps(self._counter) - steps, cpu_seconds(self._trainer) - cpu)


class Server:
    """An inference server that waits for orders."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, **order: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def start_pair(core: int) -> Iterator[Pair]:
    """Start the processes, and end them afterwards."""
    with TemporaryDirectory(prefix="weft-") as name, ExitStack() as stack:
        counter, path = Path(name, "steps"), f"{name}/gpu"
        counter.write_bytes(bytes(8))
        page.make(path, "prio")
        env = {key: value for key, value in os.environ.items() if not key.startswith("WEFT_")}
        env |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        env |= {PAGES_VARIABLE: path, "WEFT_GPU_REQUEST": "0.5", "WEFT_GPU_LIMIT": "1"}
        memory = page.Page(path).memory
        trainer = stack.enter_context(_process("trainer", [str(counter)], env, core))
        until = time.monotonic() + START_S
        while read_steps(counter) < 5:
            if trainer.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the training did not start")
            time.sleep(0.05)
        servers = {}
        for rule in ("prio", "dilu"):  # a server keeps the bands of the rule under which its first batch ran
            layout.set_rule(memory, rule)
            process = stack.enter_context(_process("server", [str(counter)], env, core))
            servers[rule] = Server(process)
            servers[rule].ask(trainer=0, rate=100.0, settle_s=0.0, seconds=0.1, seed=0)
        yield Pair(memory, counter, trainer.pid, servers)


@contextmanager
def _process(module: str, words: list[str], env: dict[str, str], core: int) -> Iterator[subprocess.Popen[str]]:
    command = ["taskset", "-c", str(core), sys.executable, "-m", f"benchmarks.sharing.{module}", *words]
    pipe = subprocess.PIPE if module == "server" else None
    process = subprocess.Popen(command, env=env, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_steps(counter: Path) -> int:
    return int(struct.unpack("<Q", counter.read_bytes())[0])
