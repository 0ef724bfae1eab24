"""Turns in a weave: from the end of one member's stage to the begin of the next one's, and the cost of a free stage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.figure import Figure
from weft.train.weave import directory

TURNS: Final = 1500
HOLD_S: Final = 0.0005
MEMBER: Final = f"""
import json, os, sys, time
from weft.train.weave.member import Member
member = Member(sys.argv[1], int(sys.argv[2]))
print('ready', flush=True)
sys.stdin.readline()
turns = []
cpu = time.process_time()
for _ in range({TURNS}):
    member.acquire('gpu', lambda: False)
    begin = time.monotonic()
    time.sleep({HOLD_S})
    end = time.monotonic()
    member.release('gpu')
    turns.append((begin, end))
cpu = time.process_time() - cpu
member.leave()
print(json.dumps([cpu, turns]))
"""
UNCONTENDED: Final = """
import sys, time
from weft.train.weave.member import Member
member = Member(sys.argv[1], 0)
def least():
    began = time.process_time()
    for _ in range(5000):
        member.acquire('gpu', None)
        member.release('gpu')
    return (time.process_time() - began) / 5000 * 1e6
print(min(least() for _ in range(5)))
"""
STAGE: Final = """
import time
from weft import train
def least():
    began = time.process_time()
    for _ in range(200_000):
        with train.stage('gpu'):
            pass
    return (time.process_time() - began) / 200_000 * 1e6
print(min(least() for _ in range(5)))
"""


def figures() -> Iterator[Figure]:
    for members in (2, 4):
        best = min((_hand_over(members) for _ in range(3)), key=lambda found: found[0])
        p50, p99, cpu, overlaps = best
        yield Figure(f"turn to turn, {members} members, p50", p50, "us", 100.0)
        yield Figure(f"turn to turn, {members} members, p99", p99, "us", 300.0)
        yield Figure(f"CPU of a turn, {members} members, sleep included", cpu, "CPU us")
        yield Figure(f"overlapping turns, {members} members", overlaps, "turns", 0.0)
    with TemporaryDirectory(prefix="weft-") as name:
        directory.make(name, "fair", 2, 60.0)
        yield Figure("a turn without other members", float(_python(UNCONTENDED, name)), "CPU us", 20.0)
    yield Figure("stage('gpu') outside a weave", float(_python(STAGE)), "CPU us", 1.0)
    with TemporaryDirectory(prefix="weft-") as name:
        may_be_woven = {"WEFT_WEAVE_FILE": str(Path(name, "weave.json"))}
        yield Figure("stage('gpu') in a run that may be woven", float(_python(STAGE, env=may_be_woven)), "CPU us")


def _hand_over(members: int) -> tuple[float, float, float, int]:
    """Return p50 and p99 of the time between turns of different members, the CPU time of a turn, and overlaps."""
    with TemporaryDirectory(prefix="weft-") as name:
        directory.make(name, "fair", members, 60.0)
        started = [
            subprocess.Popen(
                [sys.executable, "-c", MEMBER, name, str(place)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
            for place in range(members)
        ]  # fmt: skip
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        for process in started:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        found = [json.loads(process.communicate()[0]) for process in started]
    turns = sorted((begin, end, place) for place, (_, each) in enumerate(found) for begin, end in each)
    gaps = sorted(1e6 * (later[0] - earlier[1]) for earlier, later in pairwise(turns) if earlier[2] != later[2])
    overlaps = sum(later[0] < earlier[1] for earlier, later in pairwise(turns))
    cpu = 1e6 * sum(spent for spent, _ in found) / len(turns)
    return gaps[len(gaps) // 2], gaps[len(gaps) * 99 // 100], cpu, overlaps


def _python(script: str, *words: str, env: dict[str, str] | None = None) -> str:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WEFT_")}
    done = subprocess.run(
        [sys.executable, "-c", script, *words], env={**kept, **(env or {})}, capture_output=True, text=True, check=True
    )
    return done.stdout
