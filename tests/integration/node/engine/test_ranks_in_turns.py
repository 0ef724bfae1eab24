"""A job of several ranks in a weave: rank 0 takes the turns, and the others follow it through their own collective."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest

from support.running import process_engine
from weft.train.weave import directory
from weft.train.weave.directory import read_counters
from weft.train.weave.member import Member

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: make setup installs it")
SCRIPT = str(Path(process_engine.__file__).parents[1] / "programs" / "ranks_in_turns.py")
WAIT_S = 120.0


def start(folder: Path, steps: int) -> subprocess.Popen[bytes]:
    directory.make(str(folder / "weave"), "fair", 2, 60.0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    weave = {"WEFT_WEAVE_DIR": str(folder / "weave"), "WEFT_WEAVE_PLACE": "0", "WEFT_WEAVE_SIZE": "2"}
    run = {"WEFT_JOB_ID": "1", "WEFT_RUN": "1", "WEFT_PREEMPT_FILE": str(folder / "preempt")}
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WEFT_")}
    words = [str(port), str(steps), str(folder / "log")]
    job = subprocess.Popen([sys.executable, SCRIPT, *words], env={**kept, **weave, **run}, stdout=subprocess.DEVNULL)
    until(lambda: lines(folder)[:2] == [["up"], ["up"]])
    return job


def lines(folder: Path) -> list[list[str]]:
    log = folder / "log"
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def test_all_ranks_keep_out_of_the_turns_of_other_members(tmp_path: Path) -> None:
    job = start(tmp_path, 40)
    turns: list[tuple[float, float]] = []
    ended = threading.Event()

    def compete() -> None:
        member = Member(str(tmp_path / "weave"), 1)
        while not ended.is_set():
            member.acquire("gpu", lambda: False)
            begin = time.monotonic()
            time.sleep(0.004)
            turns.append((begin, time.monotonic()))
            member.release("gpu")
            time.sleep(0.0005)
        member.leave()

    other = threading.Thread(target=compete)
    other.start()
    job.wait(WAIT_S)
    ended.set()
    other.join()
    assert job.returncode == 0
    stages = [[(float(line[1]), float(line[2])) for line in lines(tmp_path) if line[0] == rank] for rank in "01"]
    assert [len(each) for each in stages] == [40, 40]
    for each in stages:
        assert [pair for pair in pairwise(sorted(each + turns)) if pair[1][0] < pair[0][1]] == []
    counters = read_counters(tmp_path / "weave")[0]
    assert (counters.stages["gpu"].grants, counters.stages["net"].grants) == (40, 40)


def test_all_ranks_stop_when_rank_0_must_stop_during_its_wait(tmp_path: Path) -> None:
    holder_at = tmp_path / "weave"
    directory.make(str(holder_at), "fair", 2, 60.0)
    holder = Member(str(holder_at), 1)
    assert holder.acquire("gpu", lambda: False)
    job = start(tmp_path, 0)
    until(lambda: len(read_counters(holder_at)) == 2)
    os.kill(job.pid, signal.SIGTERM)
    assert job.wait(WAIT_S) == 85
    assert lines(tmp_path) == [["up"], ["up"]]
    assert read_counters(holder_at)[0].stages["gpu"].grants == 0
    holder.leave()
