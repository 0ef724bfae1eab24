"""Stages of a step: free outside a weave, in turns inside one, and followed by the other ranks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.train_env import Inside
from weft.train.weave import directory
from weft.train.weave.directory import read_counters
from weft.train.weave.layout import View, from_page
from weft.train.weave.member import Member

WAIT_S = 60.0


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def weave_at(job: Inside, name: str = "w", order: str = "fair") -> Path:
    path = job.root / name
    directory.make(str(path), order, 2, 30.0)
    return path


def tell(job: Inside, path: Path | None, place: int = 1) -> None:
    """Tell the run its weave, as an engine does."""
    body = {} if path is None else {"dir": str(path), "place": place, "size": 2}
    (job.root / "weave.new").write_text(json.dumps(body))
    os.replace(job.root / "weave.new", job.root / "weave.json")


@pytest.fixture
def woven(job: Inside, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A weave in which the job of the test has place 1."""
    path = weave_at(job)
    tell(job, path)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return path


def start(job: Inside, script: str) -> subprocess.Popen[str]:
    return job.start(f"import os\nos.environ['WEFT_WEAVE_FILE'] = {str(job.root / 'weave.json')!r}\n{script}")


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == code, err
    return out.strip()


def test_stages_are_free_outside_a_weave(job: Inside) -> None:
    script = (
        "batches = [1, 2]\nassert train.stages(batches) is batches\n"
        "with train.stage('gpu'), train.stage('net'), train.stage('data'): print('free')\n"
        "print(train.stage('gpu') is train.stage('net'))"
    )
    assert job.run(script) == "free\nTrue"
    assert job.run(script, outside=True) == "free\nTrue"


def test_an_unknown_stage_is_named(job: Inside) -> None:
    script = "try: train.stage('gpus')\nexcept ValueError as error: print(error)"
    assert job.run(script) == "unknown stage 'gpus': use data, gpu, net"


def test_a_free_stage_costs_less_than_a_microsecond(job: Inside) -> None:
    script = """
import time
def loop():
    began = time.process_time()
    for _ in range(100_000):
        with train.stage('gpu'):
            pass
    return (time.process_time() - began) / 100_000
print(min(loop() for _ in range(5)))"""
    assert float(job.run(script)) < 1e-6


def test_a_member_takes_turns_and_counts_its_stages(job: Inside, woven: Path) -> None:
    script = """
import time
for batch in train.stages(range(5)):
    with train.stage('gpu'): time.sleep(0.01)
    with train.stage('net'): time.sleep(0.002)
print(batch)"""
    assert finish(start(job, script)) == "4"
    (counters,) = read_counters(woven)
    assert (counters.place, counters.present) == (1, False)
    assert (counters.stages["gpu"].grants, counters.stages["net"].grants) == (5, 5)
    assert 0.05 <= counters.stages["gpu"].served_s < 5
    assert counters.stages["data"].grants > 0


def test_a_stage_waits_for_the_other_member(job: Inside, woven: Path) -> None:
    other = Member(str(woven), 0)
    assert other.acquire("gpu", lambda: False)
    process = start(job, "print('up', flush=True)\nwith train.stage('gpu'): print('in', flush=True)")
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    until(lambda: len(read_counters(woven)) == 2)
    assert read_counters(woven)[1].stages["gpu"].grants == 0
    other.release("gpu")
    assert finish(process) == "in"
    other.leave()


def test_a_stage_inside_another_one_belongs_to_it(job: Inside, woven: Path) -> None:
    finish(start(job, "with train.stage('gpu'):\n    with train.stage('net'): pass\n    with train.stage('gpu'): pass"))
    (counters,) = read_counters(woven)
    assert (counters.stages["gpu"].grants, counters.stages["net"].grants) == (1, 0)


@pytest.mark.parametrize(("caught", "code"), [(True, 7), (False, 85)])
def test_a_job_that_must_stop_ends_its_wait_without_the_stage(
    job: Inside, woven: Path, caught: bool, code: int
) -> None:
    other = Member(str(woven), 0)
    assert other.acquire("gpu", lambda: False)
    body = "with train.stage('gpu'): print('in')"
    script = f"import sys\ntry:\n    {body}\nexcept train.StopRequested: sys.exit(7)" if caught else body
    process = start(job, f"train.should_stop()\nprint('up', flush=True)\n{script}")
    assert process.stdout is not None
    process.stdout.readline()
    until(lambda: len(read_counters(woven)) == 2)
    process.send_signal(signal.SIGTERM)
    assert finish(process, code) == ""
    other.leave()


def test_a_step_that_insists_waits_for_its_turn_during_a_stop(job: Inside, woven: Path) -> None:
    other = Member(str(woven), 0)
    assert other.acquire("gpu", lambda: False)
    body = "with train.stage('gpu', insist=True): print('in', flush=True)"
    process = start(job, f"import time\nwhile not train.should_stop(): time.sleep(0.01)\n{body}")
    until(lambda: _catches_term(process.pid))
    process.send_signal(signal.SIGTERM)
    until(lambda: View(from_page((woven / directory.STATE).read_bytes())).urgent == 1 << 1)
    assert process.poll() is None, "it waits for its turn"
    other.release("gpu")
    assert finish(process) == "in"
    other.leave()


def _catches_term(pid: int) -> bool:
    mask = int(Path(f"/proc/{pid}/status").read_text().partition("SigCgt:")[2].split()[0], 16)
    return bool(mask >> (signal.SIGTERM - 1) & 1)


def test_a_run_moves_to_another_weave_while_it_runs(job: Inside, woven: Path) -> None:
    second = weave_at(job, "w2")
    script = "import time\nwhile not train.should_stop():\n    with train.stage('gpu'): time.sleep(0.002)"
    process = start(job, script)
    until(lambda: read_counters(woven) != [])
    tell(job, second, 0)
    until(lambda: read_counters(second) != [])
    assert not read_counters(woven)[0].present
    tell(job, None)
    until(lambda: not read_counters(second)[0].present)
    tell(job, woven)
    until(lambda: read_counters(woven)[0].present)
    process.send_signal(signal.SIGTERM)
    finish(process)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"dir": "/nowhere", "place": 0}', '{"dir": 7, "place": "x"}'])
def test_a_weave_that_cannot_be_joined_is_no_obstacle(job: Inside, content: str) -> None:
    (job.root / "weave.json").write_text(content)
    assert finish(start(job, "with train.stage('gpu'): print('in')")) == "in"


def test_a_forked_child_is_no_member(job: Inside, woven: Path) -> None:
    script = """
import os, sys, time
with train.stage('gpu'): pass
child = os.fork()
if not child:
    with train.stage('gpu'): pass
    os.write(1, b'child\\n')
    sys.stdin.readline()
    os._exit(0)
os.write(1, b'parent\\n')
os._exit(0)"""
    process = start(job, script)
    assert process.stdout is not None
    assert {process.stdout.readline(), process.stdout.readline()} == {"child\n", "parent\n"}
    process.wait(WAIT_S)
    until(lambda: not directory.is_alive(str(woven), 1))  # the child does not keep it alive
    assert read_counters(woven)[0].stages["gpu"].grants == 1
    finish(process)


def test_only_rank_0_takes_turns(job: Inside, woven: Path) -> None:
    script = "import os\nos.environ['RANK'] = '1'\nwith train.stage('gpu'): print('in')"
    assert finish(start(job, script)) == "in"
    assert read_counters(woven) == []


@pytest.mark.usefixtures("woven")
def test_the_next_batch_is_loaded_during_the_step(job: Inside) -> None:
    script = """
import threading, time
loaded = []
def load():
    for batch in range(4):
        loaded.append(threading.current_thread().name)
        yield batch
until = time.monotonic() + 50
for batch in train.stages(load()):
    if batch == 2: break
    with train.stage('gpu'):
        while len(loaded) < batch + 2 and time.monotonic() < until: time.sleep(0.001)
print(*loaded)
def broken():
    yield 1
    raise KeyError('no file')
try:
    for batch in train.stages(broken()): pass
except KeyError as error: print(batch, error)
print(list(train.stages([1, 2, 3])), list(train.stages([4, 5], ahead=False)), len(train.stages([1, 2])))"""
    out = finish(start(job, script)).splitlines()
    assert out[0] == "MainThread weft-reader weft-reader weft-reader", "the last one was loaded for the next step"
    assert out[1:] == ["1 'no file'", "[1, 2, 3] [4, 5] 2"]


def test_a_stage_on_a_device_ends_when_the_device_has_finished(job: Inside, woven: Path) -> None:
    script = f"""
from weft.train.device import use_device
from weft.train.weave.directory import StateFile, View
file = StateFile({str(woven)!r})
class Slow:
    def finish(self): print('finish', bin(file.change(lambda raw: (raw, View(raw).stage(1)[0]))[1]))
    def memory_mb(self): return 0
use_device(Slow())
with train.stage('gpu'): print('queued')
with train.stage('net'): pass
print('released', bin(file.change(lambda raw: (raw, View(raw).stage(1)[0]))[1]))"""
    assert finish(start(job, script)) == "queued\nfinish 0b10\nreleased 0b0"
