"""A GPU that training and inference share, from `weft submit` to the device page, with real torch jobs."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from support.running import process_engine
from support.running.local_scheduler import Site, site, until

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: make setup installs it")
WAIT_S = 180.0
SCRIPT = str(Path(process_engine.__file__).parents[1] / "programs" / "shared_gpu_jobs.py")


@pytest.fixture
def here() -> Iterator[Site]:
    with site({"gpus": "0"}) as made:
        yield made


def submit(here: Site, share: str, kind: str, *flags: str) -> str:
    words = ("submit", "--quiet", "--gpus", "1", "--share", share, *flags, "--", sys.executable, SCRIPT, kind)
    return here.weft(*words, str(here.root / "stop"), check=True).stdout.strip()


def shares(here: Site) -> dict[str, dict[str, Any]]:
    (gpu,) = json.loads(here.weft("gpus", "--json", check=True).stdout)["gpus"]
    return {share["job"]: share for share in gpu.get("shares", ())}


def output(here: Site, job: str) -> str:
    log = here.paths.jobs / job / "1" / "output.log"
    return log.read_text() if log.exists() else ""


def test_training_is_paced_by_hooks_and_a_killed_server_frees_the_gpu(here: Site) -> None:
    hooked = submit(here, "0.3/0.5", "train", "--stages", "auto")
    server = submit(here, "0.3/0.5", "serve")
    until(lambda: "steps" in output(here, hooked), WAIT_S)
    until(lambda: "pid" in output(here, server), WAIT_S)

    def are_paced() -> bool:
        found = shares(here)
        return len(found) == 2 and found[hooked]["rate"] < 1

    until(are_paced, WAIT_S)
    found = shares(here)
    assert {share["request"] for share in found.values()} == {0.3}
    assert found[hooked]["advisory"] == ["pacing between layers (prio)"]
    text = here.weft("gpus", check=True).stdout
    assert "pacing between layers (prio)" in text
    assert "ENFORCED" in text
    pid = int(output(here, server).split()[1])
    os.kill(pid, signal.SIGKILL)
    until(lambda: server not in shares(here), WAIT_S)
    before = len(output(here, hooked))
    until(lambda: len(output(here, hooked)) > before, WAIT_S)
    here.kill9()
    assert set(shares(here)) == {hooked}, "the next scheduler reads the same pages"
    (here.root / "stop").touch()
    assert here.weft("wait", hooked, timeout_s=WAIT_S).returncode == 0, output(here, hooked)
    assert not shares(here)


def test_a_job_that_ignores_the_gate_is_shown_as_such(here: Site) -> None:
    plain, paced = submit(here, "0.5/0.5", "train"), submit(here, "0.5/0.5", "paced")
    until(lambda: all("steps" in output(here, job) for job in (plain, paced)), WAIT_S)
    found = shares(here)
    assert found[plain]["advisory"] == ["no pacing: it calls neither weft.train.pace nor runs with --stages auto"]
    assert found[paced]["advisory"] == ["pacing between layers (prio)"]
    (here.root / "stop").touch()
    here.weft("wait", plain, paced, timeout_s=WAIT_S)
