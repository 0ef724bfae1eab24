"""Arms of the comparison: the same training and the same requests, shared in different ways."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from weft.device import page
from weft.device.process import PAGES_VARIABLE

ROOT: Final = Path(__file__).parents[2]
START_S: Final = 120.0


@dataclass(frozen=True)
class Arm:
    """A way to share. Without a rule, the processes do not use the device page."""

    name: str
    rule: str = ""
    scheduler: str = "normal"
    trains: bool = True
    serves: bool = True


@dataclass(frozen=True)
class Outcome:
    """Latencies in seconds and steps per second, both on the pair's clock."""

    latencies: tuple[float, ...]
    steps_per_s: float

    def quantile(self, part: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def play(arm: Arm, rate: float, seconds: float, core: int) -> Outcome:
    """Run the pair on one core."""
    with TemporaryDirectory(prefix="weft-") as name:
        counter = Path(name, "steps")
        counter.write_bytes(bytes(8))
        env = {key: value for key, value in os.environ.items() if not key.startswith("WEFT_")}
        env |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        if arm.rule:
            page.make(f"{name}/gpu", arm.rule)
            env |= {PAGES_VARIABLE: f"{name}/gpu", "WEFT_GPU_REQUEST": "0.5", "WEFT_GPU_LIMIT": "1"}
        with _trainer(arm, counter, env, core) as pid:
            if not arm.serves:
                return _train_alone(pid, counter, seconds)
            words = [str(pid), str(counter), str(rate), str(seconds)]
            found = json.loads(_run("server", words, env, core))
    return Outcome(tuple(found["latencies"]), found["steps"] / found["seconds"])


@contextmanager
def _trainer(arm: Arm, counter: Path, env: dict[str, str], core: int) -> Iterator[int]:
    """Start the training; return its pid once it has made steps, or 0 if the arm has none."""
    if not arm.trains:
        yield 0
        return
    words = [str(counter), "paced" if arm.rule else "free", arm.scheduler]
    process = subprocess.Popen(_command("trainer", words, core), env=env, cwd=ROOT)
    try:
        until = time.monotonic() + START_S
        while _steps(counter) < 5:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the training did not start")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _train_alone(pid: int, counter: Path, seconds: float) -> Outcome:
    from benchmarks.sharing.clock import cpu_seconds

    steps, cpu = _steps(counter), cpu_seconds(pid)
    while cpu_seconds(pid) - cpu < seconds:
        time.sleep(0.1)
    return Outcome((0.0,), (_steps(counter) - steps) / (cpu_seconds(pid) - cpu))


def _run(module: str, words: Sequence[str], env: dict[str, str], core: int) -> str:
    done = subprocess.run(_command(module, words, core), env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def _command(module: str, words: Sequence[str], core: int) -> list[str]:
    return ["taskset", "-c", str(core), sys.executable, "-m", f"benchmarks.sharing.{module}", *words]


def _steps(counter: Path) -> int:
    return int(struct.unpack("<Q", counter.read_bytes())[0])
