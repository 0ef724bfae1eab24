"""`--stages auto` with real torch jobs: results as without it, to the last bit, and GPU stages that never overlap."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support import process_engine
from support.process_engine import PATH, desk, launch, until
from weft.engines.process.events import RunExited
from weft.engines.process.launch_spec import LaunchSpec
from weft.engines.process.weaves import WeaveSpec
from weft.train.weave import directory
from weft.train.weave.directory import read_counters

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: make setup installs it")
WAIT_S = 120.0
SUPPORT = Path(process_engine.__file__).parent
SCRIPT = str(SUPPORT / "plain_training.py")
STEPS = ["--steps", "60"]


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


def test_two_woven_jobs_compute_what_they_compute_alone_and_never_at_the_same_time(tmp_path: Path) -> None:
    def job(place: int) -> LaunchSpec:
        env = (PATH, ("WEFT_STAGE_LOG", str(tmp_path / f"stages{place}")))
        words = (*STEPS, "--seed", str(place), "--wait", str(tmp_path / "go"))
        weave = WeaveSpec("1-1", place, 2, "fair", 60.0)
        return launch(
            sys.executable, SCRIPT, *words, job=str(place), gpus=(0,), env=env, weave=weave, stages="auto"
        )  # fmt: skip

    async def main() -> list[str]:
        async with desk(tmp_path) as here:
            for place in (0, 1):
                here.engine.start(job(place))
            logs = [here.path("output.log", str(place)) for place in (0, 1)]
            await until(lambda: all(log.exists() and "ready" in log.read_text() for log in logs), WAIT_S)
            (tmp_path / "go").touch()
            await until(lambda: all(here.seen(RunExited, str(place)) for place in (0, 1)), WAIT_S)
            assert not (tmp_path / "weaves").exists()
            return [here.log(str(place)).strip().rpartition("\n")[2] for place in (0, 1)]

    woven = asyncio.run(main())
    alone = results(*(variant(*STEPS, "--seed", str(place)) for place in (0, 1)))
    assert [[line] for line in woven] == alone
    stages = [gpu_stages(tmp_path / f"stages{place}") for place in (0, 1)]
    assert min(map(len, stages)) >= 60
    assert stages[0][0][0] < stages[1][-1][1], "they did not run at the same time"
    assert stages[1][0][0] < stages[0][-1][1], "they did not run at the same time"
    every = sorted(stages[0] + stages[1])
    assert [(one, other) for one, other in pairwise(every) if other[0] < one[1]] == []


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
