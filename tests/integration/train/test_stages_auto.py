"""`--stages auto` with real torch jobs: results as without it, to the last bit, and GPU stages that never overlap."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support.running import process_engine
from support.running.local_scheduler import Site, site, until
from weft.train.weave import directory
from weft.train.weave.directory import read_counters

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: make setup installs it")
WAIT_S = 120.0
SUPPORT = Path(process_engine.__file__).parents[1] / "programs"
SCRIPT = str(SUPPORT / "plain_training.py")
STEPS = ["--steps", "60"]


@pytest.fixture
def here() -> Iterator[Site]:
    settings = {"gpus": "0", "policy": "muri-l:autopack=off", "interval_s": 0.2, "min_run_s": 0}
    with site(settings) as made:
        yield made


def variant(*words: str, ranks: int = 1, env: dict[str, str] | None = None) -> dict[str, Any]:
    return {"words": list(words), "ranks": ranks, "env": env or {}}


def results(*variants: dict[str, Any]) -> list[list[str]]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WEFT_")}
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "training_variants.py"), json.dumps(variants)],
        env=kept, capture_output=True, text=True, timeout=2 * WAIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[list[str]] = json.loads(done.stdout)
    assert all("sum" in line for lines in found for line in lines)
    return found


def gpu_stages(log: Path) -> list[tuple[float, float]]:
    lines = [line.split() for line in log.read_text().splitlines()]
    return [(float(begin), float(end)) for stage, begin, end in lines if stage == "gpu"]


def test_two_woven_jobs_compute_what_they_compute_alone_and_never_at_the_same_time(here: Site) -> None:
    """From `weft submit` on one machine to the last bit. The first job gets its partner while it runs."""
    go = here.root / "go"

    def submit(place: int, profile: str) -> str:
        flags = ("--gpus", "1", "--stages", "auto", "--profile", profile)
        log = ("--env", f"WEFT_STAGE_LOG={here.root / f'stages{place}'}")
        script = (sys.executable, SCRIPT, *STEPS, "--seed", str(place), "--wait", str(go))
        return here.weft("submit", "--quiet", *flags, *log, "--", *script, check=True).stdout.strip()

    def woven() -> list[str]:
        found = json.loads(here.weft("weaves", "--json", check=True).stdout)["weaves"]
        return sorted(member["job"] for weave in found for member in weave["members"])

    jobs = [submit(0, "data=0.3,gpu=0.02,net=0.01")]
    until(lambda: "ready" in output(here, jobs[0]), WAIT_S)
    jobs.append(submit(1, "data=0.02,gpu=0.02,net=0.3"))
    until(lambda: "ready" in output(here, jobs[1]) and woven() == jobs, WAIT_S)
    go.touch()
    for job in jobs:
        assert here.weft("wait", job, timeout_s=WAIT_S).returncode == 0, output(here, job)
    shown = json.loads(here.weft("show", "--json", *jobs, check=True).stdout)["jobs"]
    assert [job["run"] for job in shown] == [1, 1], "a job was started again to get its partner"
    assert not (here.paths.state / "weaves").exists()
    alone = results(*(variant(*STEPS, "--seed", str(place)) for place in (0, 1)))
    assert [[output(here, job).strip().rpartition("\n")[2]] for job in jobs] == alone
    stages = [gpu_stages(here.root / f"stages{place}") for place in (0, 1)]
    assert min(map(len, stages)) >= 60
    assert stages[0][0][0] < stages[1][-1][1], "they did not run at the same time"
    assert stages[1][0][0] < stages[0][-1][1], "they did not run at the same time"
    every = sorted(stages[0] + stages[1])
    assert [(one, other) for one, other in pairwise(every) if other[0] < one[1]] == []


def output(here: Site, job: str) -> str:
    log = here.paths.jobs / job / "1" / "output.log"
    return log.read_text() if log.exists() else ""


def test_the_gradients_of_ddp_are_the_same_in_every_digit(tmp_path: Path) -> None:
    """Plain, deferred while woven, and hooked but not woven; with two ranks, and three for a factor that is rounded."""
    path = tmp_path / "weave"
    directory.make(str(path), "fair", 2, 60.0)
    woven = {"WEFT_STAGES": "auto", "WEFT_WEAVE_DIR": str(path), "WEFT_WEAVE_PLACE": "0", "WEFT_WEAVE_SIZE": "2"}
    free = {"WEFT_STAGES": "auto", "WEFT_WEAVE_FILE": str(tmp_path / "weave.json")}
    forms: list[tuple[int, tuple[str, ...]]] = [(2, ()), (3, ("--accumulate", "2")), (2, ("--bucket-view",))]
    environments: list[dict[str, str]] = [{}, woven, free]
    found = results(*(variant(*words, ranks=ranks, env=env) for ranks, words in forms for env in environments))
    for plain, deferred, hooked in zip(found[::3], found[1::3], found[2::3], strict=True):
        assert plain == deferred == hooked
    (counters,) = read_counters(path)
    assert counters.stages["gpu"].grants >= 30
    assert counters.stages["net"].grants >= 30, "the reduction was no stage"
