"""Training loops as real jobs: preempted, resumed, watched, and left alone when the scheduler dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from support.running.local_scheduler import Site, site, until
from weft.access.client.api import connection, disconnect

LOOP = """
import json, os, sys, time
from weft import train

goal, when_told = int(sys.argv[1]), sys.argv[2]
known = train.resume_path()
step = json.load(open(known))["step"] if known else 0
print("run", os.environ["WEFT_RUN"], "from", step, "pid", os.getpid(), flush=True)

def save():
    with open("checkpoint.tmp", "w") as file:
        json.dump({"step": step}, file)
    os.replace("checkpoint.tmp", "checkpoint.json")
    train.checkpoint("checkpoint.json")

with train.preemptible() as p:
    while step < goal:
        time.sleep(0.02)
        step += 1
        train.progress(step, goal, loss=1 / step)
        if p.should_stop:
            save()
            if when_told == "done":
                train.done()
            if when_told in ("done", "exit"):
                sys.exit(0)
            p.requeue()
        if step % 10 == 0:
            save()
print("end", step)
"""

GOAL = 300
"""Steps that take longer than a busy machine needs for a new scheduler."""


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with site({"gpus": "0", "models": "A", "memories": "24576", "min_run_s": 0}) as made:
        for key in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
            monkeypatch.setenv(key, made.env[key])
        monkeypatch.setenv("PYTHONPATH", str(Path(weft.__file__).parents[1]))
        (made.root / "loop.py").write_text(LOOP)
        monkeypatch.chdir(made.root)
        yield made
        disconnect()


def train(goal: int, when_told: str = "requeue") -> weft.JobHandle:
    return weft.submit([sys.executable, "-S", "loop.py", goal, when_told], name="train", gpus=1, retries=0)  # type: ignore[list-item]


def step_of(job: weft.JobHandle) -> int:
    return int((job.progress or {}).get("step") or 0)


def urgent() -> None:
    assert weft.submit(["true"], name="urgent", gpus=1, priority=10).wait(20) == 0


@pytest.mark.parametrize("when_told", ["requeue", "exit"])
def test_a_preempted_job_saves_and_goes_on_from_there(when_told: str) -> None:
    job = train(60, when_told)
    until(lambda: step_of(job) >= 5)
    urgent()
    assert job.wait(20) == 0
    found = job.show()
    assert (found["run"], found["preemptions"], found["failures"]) == (2, 1, 0)
    first, second = job.logs(run=1), job.logs(run=2)
    assert first.startswith("run 1 from 0")
    assert "end" not in first
    resumed = int(second.split()[3])
    assert 5 <= resumed < 60
    assert second.endswith("end 60\n")
    assert job.progress is not None
    assert job.progress["step"] == job.progress["total"] == 60


def test_a_job_that_is_done_when_it_is_told_to_stop_is_not_run_again() -> None:
    job = train(1000, "done")
    until(lambda: step_of(job) >= 1)
    urgent()
    assert job.wait(20) == 0
    assert (job.show()["run"], job.status) == (1, "done")


def test_a_job_may_ask_to_be_run_again_by_itself() -> None:
    script = (
        "from weft import train\nimport os\n"
        "if train.resume_path(): raise SystemExit(0)\n"
        "open('saved', 'w').close(); train.checkpoint('saved'); train.preemptible().requeue()"
    )
    job = weft.submit([sys.executable, "-S", "-c", script], retries=0)
    assert job.wait(20) == 0
    found = job.show()
    assert (found["run"], found["requeues"], found["failures"]) == (2, 1, 0)


def test_the_last_checkpoint_is_shown_from_run_to_run(here: Site) -> None:
    """The second run says nothing of itself, and the scheduler that saw the first is gone."""
    script = (
        "from weft import train\nimport time\n"
        "if train.resume_path(): time.sleep(60)\n"
        "open('saved', 'w').close(); train.checkpoint('saved'); train.preemptible().requeue()"
    )
    job = weft.submit([sys.executable, "-S", "-c", script])
    until(lambda: job.show()["run"] == 2 and job.status == "running")
    assert job.show()["checkpoint"]["path"] == str(here.root / "saved")
    here.kill9()
    with here.client() as client:
        (found,) = client.jobs([job.id]).jobs
        assert found.checkpoint is not None
        assert (found.progress, found.checkpoint.path) == (None, str(here.root / "saved"))
    assert f"{here.root / 'saved'} at " in here.weft("show", job.id).stdout
    job.cancel()


def test_progress_and_what_is_left_show_in_the_queue(here: Site) -> None:
    job = train(2000)
    until(lambda: step_of(job) >= 12)
    (row,) = connection().queue().jobs
    progress = row.progress
    assert progress is not None
    assert progress.source == "job"
    assert 12 <= (progress.step or 0) < (progress.total or 0) == 2000
    assert 20 < (progress.eta_s or 0) < 400
    assert 0 < (progress.metrics["loss"] or 0) <= 1 / 12
    assert progress.checkpoint is not None
    assert progress.checkpoint.path == str(here.root / "checkpoint.json")
    assert (progress.checkpoint.step or 1) % 10 == 0
    job.cancel()
    assert job.wait(20) == 85  # it saved before it went
    assert job.status == "cancelled"


def test_bars_in_the_log_show_in_the_queue() -> None:
    bar = r" 45%|####5     | 450/1000 [00:10<00:12, 44.50it/s]"
    job = weft.submit(["sh", "-c", f"printf '  1%%|     | 10/1000 [00:01<?, ?it/s]\\r%s' '{bar}'; sleep 60"])
    progress = until(lambda: job.progress)
    assert (progress["step"], progress["total"], progress["eta_s"], progress["from"]) == (450, 1000, 12.0, "log")
    job.cancel()


def test_a_killed_scheduler_does_not_disturb_the_loop(here: Site) -> None:
    job = train(GOAL)
    until(lambda: step_of(job) >= 3)
    log = here.paths.jobs / job.id / "1" / "output.log"
    pid = int(log.read_text().split()[-1])
    here.kill9()
    os.kill(pid, 0)
    with here.client():
        pass  # a new scheduler, which the loop finds by itself
    before = until(lambda: step_of(job))
    until(lambda: step_of(job) > before or job.status == "done")
    assert job.wait(60) == 0
    found = job.show()
    assert (found["run"], found["preemptions"]) == (1, 0)
    assert found["progress"]["step"] == GOAL
    assert log.read_text().splitlines() == [f"run 1 from 0 pid {pid}", f"end {GOAL}"]


def test_stage_times_that_hooks_report_do_not_hide_the_progress_in_the_log() -> None:
    script = """
import time
from weft.train.recorder import Recorder
recorder = Recorder()
print("step 450/1000", flush=True)
while True:
    time.sleep(0.02)
    recorder.add("gpu", 0.02)
    recorder.end_step()
"""
    job = weft.submit([sys.executable, "-c", script], gpus=1)
    until(lambda: (found := job.progress) is not None and bool(found.get("stages")))
    found = job.progress
    assert found is not None
    assert (found["step"], found["total"], found["from"]) == (450, 1000, "log")
    assert 0 < found["stages"]["gpu_s"] < 1
    job.cancel()
