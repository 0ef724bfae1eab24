"""Sharing of one core by training and inference: latency and training by rule, and the cost of a gate."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.figure import Figure, least
from benchmarks.sharing.arms import Arm, Outcome, play
from weft.device import page

RATE: Final = 12.0
"""Requests per second: one batch each, 6 to 7 ms of the core."""
SECONDS: Final = 6.0
ROUNDS: Final = 3
ARMS: Final = (
    Arm("training alone", serves=False), Arm("inference alone", trains=False), Arm("uncontrolled"),
    Arm("prio", "prio"), Arm("dilu", "dilu"),
)  # fmt: skip
GATE: Final = """
import os, sys, time
from weft.device import layout
from weft.device.gate import Gate
from weft.device.page import this_owner
from weft.device.place import Place
train = Place(sys.argv[1], this_owner(layout.TRAINING, {}))
serve = Place(sys.argv[1], this_owner(layout.INFERENCE, {}))
gate = Gate(train)
def cost():
    began = time.process_time()
    for _ in range(200_000):
        gate()
    return (time.process_time() - began) / 200_000 * 1e6
print(min(cost() for _ in range(5)))
"""


def figures() -> Iterator[Figure]:
    with TemporaryDirectory(prefix="weft-") as name:
        page.make(f"{name}/gpu", "prio")
        yield Figure("a gate while no batch runs", least(lambda: _gate_us(f"{name}/gpu")), "CPU us", 1.0)
    if find_spec("torch") is None:
        print("  torch is not installed: make workloads")
        return
    core = max(os.sched_getaffinity(0))
    # other processes come and go: each round has all arms, and ratios are taken within it
    yield from _arms([{arm.name: play(arm, RATE, SECONDS, core) for arm in ARMS} for _ in range(ROUNDS)])


def _arms(rounds: list[dict[str, Outcome]]) -> Iterator[Figure]:
    for arm in ARMS[1:]:
        for part in (0.5, 0.95):
            value = median(1e3 * each[arm.name].quantile(part) for each in rounds)
            yield Figure(f"{arm.name}: latency p{100 * part:.0f}", value, "ms")
    alone = ARMS[0].name
    yield Figure("training alone", median(each[alone].steps_per_s for each in rounds), "steps/s")
    for arm in ARMS[2:]:
        kept = median(each[arm.name].steps_per_s / each[alone].steps_per_s for each in rounds)
        goal = 70.0 if arm.name == "prio" else None
        yield Figure(f"{arm.name}: training kept", 100 * kept, "%", goal, more_is_better=True)
        if arm.name != "uncontrolled":
            ratio = median(each[arm.name].quantile(0.95) / each["uncontrolled"].quantile(0.95) for each in rounds)
            yield Figure(f"{arm.name}: p95 / p95 uncontrolled", ratio, "", 0.8 if goal else None)


def _gate_us(path: str) -> float:
    done = subprocess.run([sys.executable, "-c", GATE, path], capture_output=True, text=True, check=True)
    return float(done.stdout)
