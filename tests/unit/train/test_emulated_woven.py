"""Woven jobs on the emulated device, as real processes that take turns by the real protocol."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.running.local_scheduler import until
from weft.train.emulated import woven
from weft.train.emulated.program import EXIT_CHECKPOINTED
from weft.train.weave import directory

LONG_S = 1000.0


@dataclass
class Bench:
    root: Path
    order: str = "slots"
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def weave(self) -> str:
        return str(self.root / "weave")

    def make(self, size: int) -> None:
        directory.make(self.weave, self.order, size, 20.0)

    def enter(self, place: int, size: int) -> None:
        self.write(place, {"dir": self.weave, "place": place, "size": size})

    def write(self, place: int, body: dict[str, object]) -> None:
        new = self.root / f"{place}.new"
        new.write_text(json.dumps(body))
        new.rename(self.root / f"{place}.json")

    def start(self, place: int, work_s: float = LONG_S, stage_s: float = 0.02, **env: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-I", "-S", woven.__file__, str(work_s), str(self.root / f"{place}.save")]
        words += [str(3 * stage_s), *[str(stage_s)] * 3, self.order]
        folder = {"WEFT_WEAVE_FILE": str(self.root / f"{place}.json"), "WEFT_DEVICE_DIR": str(self.root)}
        options = {"WEFT_DEVICE_OPTIONS": "--idle 0.2"}
        process = subprocess.Popen(
            words, env={**os.environ, **folder, **options, **env}, stdout=subprocess.PIPE, text=True
        )
        self.started.append(process)
        return process

    def grants(self) -> dict[int, int]:
        """Return the turns on the GPU by place."""
        return {each.place: each.stages["gpu"].grants for each in directory.read_counters(self.weave)}

    def present(self) -> set[int]:
        return {each.place for each in directory.read_counters(self.weave) if each.present}

    def saved(self, place: int) -> float:
        return float((self.root / f"{place}.save").read_text())


def catches(pid: int, number: int) -> bool:
    """Return whether the process has installed a handler of the signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
    return bool(caught >> (number - 1) & 1)


@pytest.fixture
def bench(tmp_path: Path) -> object:
    made = Bench(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


def test_members_take_turns_in_lock_step_until_they_are_stopped(bench: Bench) -> None:
    bench.make(2)
    for place in (0, 1):
        bench.enter(place, 2)
    jobs = [bench.start(place) for place in (0, 1)]
    until(lambda: min(bench.grants().values(), default=0) >= 5)
    for job in jobs:
        job.send_signal(signal.SIGTERM)
    assert [job.wait(30) for job in jobs] == [EXIT_CHECKPOINTED] * 2
    assert bench.present() == set(), "they leave the weave"
    assert abs(bench.grants()[0] - bench.grants()[1]) <= 1
    assert bench.saved(0) == pytest.approx(bench.grants()[0] * 0.06, abs=0.08), "each turn is an iteration of work"


def test_a_job_that_runs_alone_joins_and_leaves_in_place(bench: Bench) -> None:
    bench.make(2)
    job = bench.start(1)
    assert job.stdout is not None
    job.stdout.readline()
    bench.enter(1, 2)
    until(lambda: bench.present() == {1} and bench.grants()[1] > 1)
    bench.write(1, {})
    until(lambda: bench.present() == set())
    job.send_signal(signal.SIGTERM)
    assert job.wait(30) == EXIT_CHECKPOINTED
    assert bench.saved(1) > 0.0


def test_stages_take_longer_by_the_factor_of_their_weave(bench: Bench) -> None:
    bench.make(2)
    bench.enter(0, 2)
    began = time.monotonic()
    job = bench.start(0, work_s=0.3, stage_s=0.05, WEFT_DEVICE_FACTORS="2=3.0,3=1.0")
    assert job.wait(60) == 0
    assert time.monotonic() - began > 0.85, "0.3 s of stages, three times as long"


def test_the_other_processes_of_a_gang_wait_for_the_first(bench: Bench) -> None:
    follower = bench.start(0, work_s=0.2, WEFT_NODE_RANK="1")
    assert bench.start(0, work_s=0.2).wait(60) == 0
    assert follower.wait(60) == 0
    stopped = bench.start(1, WEFT_NODE_RANK="1")
    until(lambda: catches(stopped.pid, signal.SIGTERM))
    stopped.send_signal(signal.SIGTERM)
    assert stopped.wait(60) == EXIT_CHECKPOINTED


def test_fair_turns_load_ahead_and_lose_no_work_when_stopped(bench: Bench) -> None:
    bench.order = "fair"
    bench.make(2)
    for place in (0, 1):
        bench.enter(place, 2)
    jobs = [bench.start(place) for place in (0, 1)]
    until(lambda: min(bench.grants().values(), default=0) >= 5)
    for job in jobs:
        job.send_signal(signal.SIGTERM)
    assert [job.wait(30) for job in jobs] == [EXIT_CHECKPOINTED] * 2
    assert bench.saved(0) == pytest.approx(bench.grants()[0] * 0.06, abs=0.08)
    until(lambda: not list(bench.root.glob("*.sock")))


def test_with_fair_turns_no_job_is_faster_than_alone(bench: Bench) -> None:
    """Alone, the data stage is a part of each iteration; read ahead, its GPU and network stages would be quicker."""
    bench.order = "fair"
    bench.make(2)
    bench.enter(0, 2)
    began = time.monotonic()
    assert bench.start(0, work_s=1.2, stage_s=0.1).wait(60) == 0
    assert time.monotonic() - began >= 1.15
