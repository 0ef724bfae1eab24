"""Sharing of one core by training and inference: latency and training by rule, and the cost of a gate."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.figure import Figure, least
from benchmarks.sharing.arms import Arm, Outcome, start_pair
from weft.train.device_page import page

RATE: Final = 12.0
"""Requests per second: one batch each, 6 to 7 ms of the core."""
SETTLE_S: Final = 0.5
SECONDS: Final = 2.5
TURNS: Final = 8
ARMS: Final = (
    Arm("training alone", serves=False), Arm("inference alone", trains=False), Arm("uncontrolled"),
    Arm("prio", "prio"), Arm("dilu", "dilu"), Arm("SCHED_IDLE", is_idle=True),
)  # fmt: skip
GATE: Final = """
import os, sys, time
from weft.train.device_page import layout
from weft.train.device_page.gate import Gate
from weft.train.device_page.page import this_owner
from weft.train.device_page.place import Place
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
    with start_pair(max(os.sched_getaffinity(0))) as pair:
        found = {arm.name: Outcome() for arm in ARMS}
        for turn in range(TURNS):
            for arm in ARMS:
                one = pair.play(arm, RATE, SETTLE_S, SECONDS, turn)
                all_turns = found[arm.name]
                all_turns.latencies += one.latencies
                all_turns.steps += one.steps
                all_turns.seconds += one.seconds
    yield from _figures(found)


def _figures(found: dict[str, Outcome]) -> Iterator[Figure]:
    alone, uncontrolled = found["training alone"].steps_per_s, found["uncontrolled"].quantile(0.95)
    yield Figure("training alone", alone, "steps/s")
    for arm in ARMS[1:]:
        outcome = found[arm.name]
        for part in (0.5, 0.95):
            yield Figure(f"{arm.name}: latency p{100 * part:.0f}", 1e3 * outcome.quantile(part), "ms")
        if arm.rule != "off" or arm.is_idle:
            goal = 0.8 if arm.name == "prio" else None
            yield Figure(f"{arm.name}: p95 / p95 uncontrolled", outcome.quantile(0.95) / uncontrolled, "", goal)
        if arm.trains:
            kept, goal = 100 * outcome.steps_per_s / alone, 70.0 if arm.name == "prio" else None
            yield Figure(f"{arm.name}: training kept", kept, "%", goal, more_is_better=True)


def _gate_us(path: str) -> float:
    done = subprocess.run([sys.executable, "-c", GATE, path], capture_output=True, text=True, check=True)
    return float(done.stdout)
