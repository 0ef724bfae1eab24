"""Stage times of real torch jobs, measured by hooks and reported with the progress; and the start of the hooks."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from support.running import process_engine
from support.train_env import Inside
from weft.node.engine.environment import HOOKS_PATH

SCRIPT = str(Path(process_engine.__file__).parents[1] / "programs" / "plain_training.py")
WAIT_S = 120.0
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: make setup installs it")


def run(job: Inside, *words: str, code: int = 0, **env: str) -> str:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("WEFT_", "PYTHON"))}
    hooks = {"WEFT_STAGES": "auto", "PYTHONPATH": HOOKS_PATH}
    done = subprocess.run(
        [sys.executable, *words], env={**kept, **job.env, **hooks, **env}, cwd=job.root,
        capture_output=True, text=True, timeout=WAIT_S,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def last_stages(job: Inside) -> dict[str, Any]:
    reports = [report["stages"] for report in job.scheduler.rest() if "stages" in report]
    assert reports, "no stage times were reported"
    found: dict[str, Any] = reports[-1]
    return found


@needs_torch
def test_the_times_of_a_step_are_reported(job: Inside) -> None:
    run(job, SCRIPT, "--steps", "30")
    found = last_stages(job)
    assert found["steps"] == 30
    assert 0 < found["data_s"] < found["step_s"]
    assert 0 < found["gpu_s"] < found["step_s"]
    assert found["p90"]["gpu_s"] >= found["gpu_s"]
    assert found["fetch_s"] > 0
    assert found["fetch_cpu_s"] > 0
    assert (found["workers"], found["net_s"], found["separate_net"]) == (0, 0, False)
    assert 0.1 < found["first_step_s"] < WAIT_S
    assert found["rss_mb"] > 50


@needs_torch
def test_fetches_are_timed_inside_the_workers_of_a_loader(job: Inside) -> None:
    """The step hardly waits for batches that workers load ahead: the fetch takes its time there."""
    script = """
import time, torch
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __init__(self, seconds): self.seconds = seconds
    def __len__(self): return 40
    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.zeros(1)
if __name__ == '__main__':
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for start, workers, seconds in (('spawn', 1, 0.04), ('fork', 2, 0.02)):
        for batch in DataLoader(Slow(seconds), 2, num_workers=workers, multiprocessing_context=start):
            model(batch).sum().backward()
            optimizer.step()
"""
    (job.root / "train.py").write_text(script)
    run(job, "train.py")
    found = last_stages(job)
    assert found["steps"] == 40
    assert found["workers"] == 2
    assert 0.05 <= found["fetch_s"] < 1.0, "0.04 if the worker that was not forked is not counted"
    assert found["data_s"] == pytest.approx(found["fetch_s"] / 2, rel=0.01)
    assert found["fetch_cpu_s"] < found["fetch_s"] / 2, "it sleeps"


@needs_torch
def test_evaluations_do_not_count_and_a_program_may_look_for_torch_first(job: Inside) -> None:
    script = """
import importlib.util, time
assert importlib.util.find_spec('torch') is not None, 'as programs do that have torch as an option'
import torch
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __init__(self, seconds): self.seconds = seconds
    def __len__(self): return 8
    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.zeros(1)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    for batch in DataLoader(Slow(0.01), 2, num_workers=2):
        model(batch).sum().backward()
        optimizer.step()
    for workers in (0, 1):
        with torch.no_grad():
            for batch in DataLoader(Slow(0.25), 2, num_workers=workers):
                model(batch)
"""
    (job.root / "train.py").write_text(script)
    run(job, "train.py")
    found = last_stages(job)
    assert (found["steps"], found["workers"]) == (16, 2)
    assert 0.02 <= found["fetch_s"] < 0.4, "0.5 is the fetch of an evaluation"
    assert found["data_s"] == pytest.approx(found["fetch_s"] / 2, rel=0.01)
    assert found["gpu_s"] < 0.25


def test_the_users_own_sitecustomize_still_runs(job: Inside) -> None:
    own = job.root / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 'mine'\n")
    check = (
        "import sys; print(mine, sys.modules['sitecustomize'].__file__, 'weft.train.hooks.torch_import' in sys.modules)"
    )
    out = run(job, "-c", check, PYTHONPATH=f"{HOOKS_PATH}:{own}")
    assert out.split() == ["mine", str(own / "sitecustomize.py"), "True"]
    assert run(job, "-c", "print('fine')") == "fine\n"
    broken = job.root / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text("import no_such_module\n")
    assert "no_such_module" in run(job, "-c", "print('fine')", PYTHONPATH=f"{HOOKS_PATH}:{broken}")


def test_a_python_without_weft_loads_the_hooks_from_their_folder(job: Inside) -> None:
    check = "import sys; print(sys.modules['weft.train.hooks.torch_import'].__file__); import weft.train"
    out = run(
        job, "-S", "-c", f"import site; import runpy; runpy.run_path({HOOKS_PATH + '/sitecustomize.py'!r}); {check}"
    )
    assert out.strip().endswith("torch_import.py")


def test_a_job_that_does_not_import_torch_pays_little(job: Inside) -> None:
    out = run(job, "-c", "import sys; print('threading' in sys.modules, 'torch' in sys.modules, len(sys.modules))")
    has_threading, has_torch, count = out.split()
    assert (has_threading, has_torch) == ("False", "False")
    assert int(count) < 150
