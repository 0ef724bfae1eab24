"""Policies that preempt, on real jobs: what jobs report counts, a stop lets them save, and they go on from there."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until

LOOP = """
import json, os, sys, time
from weft import train

goal = int(sys.argv[1])
known = train.resume_path()
step = json.load(open(known))["step"] if known else 0
print("run", os.environ["WEFT_RUN"], "from", step, flush=True)
with train.preemptible() as p:
    while step < goal:
        time.sleep(0.05 if os.environ["WEFT_RUN"] == "1" else 0.0)
        step += 1
        train.progress(step, goal)
        if p.should_stop:
            with open("checkpoint.tmp", "w") as file:
                json.dump({"step": step}, file)
            os.replace("checkpoint.tmp", "checkpoint.json")
            train.checkpoint("checkpoint.json")
            p.requeue()
print("end", step)
"""
POLICIES = {
    "srtf": (),
    "srsf": (),
    "las": (),
    "tiresias:thresholds=1+1000": (),
    "themis": ("--schedule-interval", "2"),
}


@pytest.fixture(params=POLICIES)
def here(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    options = ("--policy", request.param, "--min-run", "0", *POLICIES[request.param])
    with cluster("n1", gpus=1, options=options) as made:
        (made.root / "loop.py").write_text(LOOP)
        yield made


def step_of(here: Cluster, job: str) -> int:
    return int((here.job(job).get("progress") or {}).get("step") or 0)


def test_a_preempted_job_goes_on_from_its_checkpoint(here: Cluster) -> None:
    """It said that it would take a second. What it reports says otherwise: only so the newcomer goes first."""
    job = here.submit(sys.executable, "loop.py", "600", flags=("--gpus", "1", "--duration", "1s", "--retries", "0"))
    until(lambda: step_of(here, job) >= 10)
    first = here.submit("true", flags=("--gpus", "1", "--duration", "5s"))
    assert here.wait(first) == 0
    assert here.wait(job) == 0
    found = here.job(job)
    assert (found["status"], found["failures"]) == ("done", 0)
    assert found["run"] == 1 + found["preemptions"] >= 2
    assert "end" not in here.logs(job, "--run", "1")
    last = here.logs(job)
    resumed = int(last.split()[3])
    assert 10 <= resumed <= 600
    assert last.endswith("end 600\n")


ONCE = """
import json, os, sys
from weft import train

known = train.resume_path()
if known:
    print("from", json.load(open(known))["step"])
    sys.exit(0)
with open("shared.json", "w") as file:
    json.dump({"step": 7}, file)
train.progress(7, 10)
train.checkpoint("shared.json")
print("saved", flush=True)
while not os.path.exists("go"):
    pass
sys.exit(85)
"""


def test_a_job_that_is_run_on_another_node_finds_its_checkpoint() -> None:
    """Where both nodes see the file: the scheduler tells the second what the first reported."""
    with cluster("n1", gpus=1, options=("--policy", "priority", "--min-run", "0")) as here:
        (here.root / "once.py").write_text(ONCE)
        job = here.submit(sys.executable, "once.py", flags=("--gpus", "1"))
        here.says("n1", job, "saved")
        until(lambda: (here.job(job).get("progress") or {}).get("checkpoint"))
        here.work("n2", gpus=1)
        other, first = (
            here.submit(
                "sh", "-c", f"while ! [ -e {name} ]; do sleep 0.05; done", flags=("--gpus", "1", "--priority", "9")
            )
            for name in ("on-n2", "on-n1")
        )
        until(lambda: here.where(other))
        here.kill9("server")  # it is on its disk, too
        here.serve()
        (here.root / "go").touch()
        until(lambda: here.where(first) == ["n1"])
        (here.root / "on-n2").touch()
        assert here.wait(job) == 0
        (here.root / "on-n1").touch()
        assert here.where(job, 2) == ["n2"]
        assert here.logs(job) == "from 7\n"
