"""Hydra, submitit, Optuna and `weft.job` with a real scheduler."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from support.running.local_scheduler import Site, site, until
from weft.access.client.api import disconnect
from weft.errors import InputError

EXAMPLES = Path(__file__).parents[3] / "examples" / "sweeps"

HYDRA = """
import hydra
from hydra.core.config_store import ConfigStore

ConfigStore.instance().store(name="conf", node={"lr": 0.1, "opt": {"name": "sgd"}})

@hydra.main(version_base="1.3", config_path=None, config_name="conf")
def main(cfg):
    from weft import train
    train.progress(1, 1, loss=cfg.lr)
    if cfg.opt.name == "bad":
        raise ValueError("too bad")
    return cfg.lr

if __name__ == "__main__":
    main()
"""

RETURNS = """
import json, os
from omegaconf import OmegaConf
from hydra._internal.hydra import Hydra

def multirun(self, *args, launch=Hydra.multirun, **kwargs):
    (returns,) = launch(self, *args, **kwargs)
    json.dump([{
        "cfg": OmegaConf.to_container(made.cfg), "overrides": made.overrides, "status": made.status.name,
        "value": made.return_value, "task": made.task_name, "at": os.path.abspath(made.working_dir),
        "job": [made.hydra_cfg.hydra.job[key] for key in ("name", "id", "num", "override_dirname")],
        "folder": made.hydra_cfg.hydra.runtime.output_dir,
    } for made in returns], open("returns.json", "w"))

Hydra.multirun = multirun
"""
"""Writes what a launcher returns into a file."""

JOBS = """
import weft
from weft import train as inside

@weft.job(gpus=0, comment="by name")
def train(lr, steps=2, name="x"):
    for step in range(1, steps + 1):
        inside.progress(step, steps, loss=lr / step)
    return {"final": lr, "text": "no number"}

def _local():
    @weft.job
    def inner():
        pass
    return inner

if __name__ == "__main__":
    print(train.submit(0.5, name="a b").wait())
"""


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with site({"gpus": "0", "models": "A", "memories": "24576", "min_run_s": 0}) as made:
        for key in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "HOME"):
            monkeypatch.setenv(key, made.env[key])
        source = str(Path(weft.__file__).parents[1])
        monkeypatch.setenv("PYTHONPATH", source)
        made.env["PYTHONPATH"] = source
        monkeypatch.chdir(made.root)
        yield made
        disconnect()


def run(here: Site, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *words]
    done = subprocess.run(
        command, env=here.env, cwd=here.root, capture_output=True, text=True, timeout=100, check=False
    )
    if here.paths.lock.exists():
        here.started.add(here.pid())
    return done


def results(here: Site, name: str) -> list[dict[str, Any]]:
    found = json.loads(here.weft("sweep", "results", name, "--json", check=True).stdout)
    return list(found["trials"])


def test_hydra_runs_each_job_of_a_multirun_with_weft(here: Site) -> None:
    pytest.importorskip("hydra")
    (here.root / "app.py").write_text(HYDRA)
    words = ("app.py", "-m", "hydra/launcher=weft", "hydra.launcher.gpus=0", "+hydra.launcher.keys.comment=hi")
    done = run(here, *words, "lr=0.1,0.2", "hydra.sweep.dir='a b (c)'")
    assert done.returncode == 0, done.stderr
    trials = results(here, "app-1")
    assert [(trial["params"], trial["metrics"]) for trial in trials] == [
        ({"lr": "0.1"}, {"loss": 0.1}),
        ({"lr": "0.2"}, {"loss": 0.2}),
    ]
    assert json.loads((here.root / "a b (c)/1/.hydra/weft_return.json").read_text()) == 0.2
    failed = run(here, *words, "opt.name=bad")
    assert failed.returncode == 1
    assert "ValueError: too bad" in failed.stderr


def test_hydra_gets_of_a_job_what_its_own_launcher_returns(here: Site) -> None:
    pytest.importorskip("hydra")
    (here.root / "app.py").write_text(RETURNS + HYDRA)
    words = ("+lr2=1", "hydra.job.chdir=true", "hydra.sweep.dir=w", "hydra.sweep.subdir=run_${hydra.job.num}")
    returned = []
    for launcher in (("hydra/launcher=weft", "hydra.launcher.gpus=0"), ("hydra/launcher=basic",)):
        done = run(here, "app.py", "-m", *launcher, *words)
        assert done.returncode == 0, done.stderr
        returned.append(json.loads((here.root / "returns.json").read_text()))
    assert returned[0] == returned[1]
    assert [made["folder"] for made in returned[0]] == [str(here.root / "w/run_0")]


def test_submitit_runs_any_function(here: Site) -> None:
    submitit = pytest.importorskip("submitit")
    executor = submitit.AutoExecutor(folder=here.root / "jobs" / "%j", cluster="weft")
    executor.update_parameters(gpus_per_node=0, mem_gb=1, timeout_min=10, name="sum", weft_priority=2)
    offset = 10
    jobs = executor.map_array(lambda a, b: a + b + offset, [1, 2], [3, 4])
    assert [job.result() for job in jobs] == [14, 16]
    assert jobs[0].state == "COMPLETED"
    shown = jobs[0].handle.show()
    assert (shown["name"], shown["priority"], shown["ram_mb"]) == ("sum", 2, 1024)
    assert shown["spec"]["signal"] == "USR2@90"
    executor.update_parameters(weft_signal="USR1", weft_signal_delay_s=30)
    handled = executor.submit(lambda: __import__("signal").getsignal(10).__name__)
    assert (handled.result(), handled.handle.show()["spec"]["signal"]) == ("checkpoint_and_try_requeue", "USR1@30")
    failing = executor.submit(divmod, 1, 0)
    with pytest.raises(submitit.core.utils.FailedJobError, match="ZeroDivisionError"):
        failing.result()
    waiting = executor.submit(__import__("time").sleep, 600)
    until(lambda: waiting.state == "RUNNING")
    waiting.cancel()
    until(waiting.done)
    assert waiting.state == "CANCELLED"
    with pytest.raises(InputError, match="one task on one node"):
        executor.update_parameters(nodes=2)


CHECKPOINTED = """
import pathlib, time
import submitit
from submitit.helpers import DelayedSubmission

class Count:
    def __call__(self, first=0):
        pathlib.Path("started").write_text(str(first))
        if first:
            return first
        self.at = 7
        for _ in range(6000):  # Python handles a signal that another thread got when a call of its main thread returns
            time.sleep(0.1)

    def checkpoint(self, first=0):
        return DelayedSubmission(self, self.at)

executor = submitit.AutoExecutor(folder="jobs", cluster="weft")
executor.update_parameters(gpus_per_node=1)
print(executor.submit(Count()).job_id)
"""


@pytest.mark.soak
def test_submitit_saves_a_preempted_function(here: Site) -> None:
    pytest.importorskip("submitit")
    (here.root / "count.py").write_text(CHECKPOINTED)
    done = run(here, "count.py")
    assert done.returncode == 0, done.stderr
    job = done.stdout.strip()
    until((here.root / "started").exists)
    here.weft("drain", "--move", check=True)
    here.weft("undrain", check=True)
    from weft.access.adapters.submitit import WeftJob

    found: Any = WeftJob(here.root / "jobs", job)
    assert found.result() == 7
    assert found.handle.show()["run"] == 2


def test_a_function_becomes_a_job_by_its_name(here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    (here.root / "mine.py").write_text(JOBS)
    monkeypatch.syspath_prepend(str(here.root))
    done = run(here, "mine.py")
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    mine = __import__("mine")
    try:
        assert mine.train(2.0) == {"final": 2.0, "text": "no number"}
        job = mine.train.with_keys(priority=5).submit(lr=0.5, steps=4)
        assert job.wait() == 0
        progress, shown = job.progress, job.show()
        assert progress is not None
        assert progress["metrics"] == {"loss": 0.125, "final": 0.5}
        assert (shown["priority"], shown["comment"], shown["params"]) == (5, "by name", {"lr": "0.5", "steps": "4"})
        with pytest.raises(TypeError, match="missing a required argument"):
            mine.train.submit()
        with pytest.raises(InputError, match="cannot be passed to a job"):
            mine.train.submit(lr=object())
        with pytest.raises(InputError, match="is inside a function"):
            mine._local().submit()
    finally:
        sys.modules.pop("mine", None)


UNGUARDED = """
import weft

@weft.job(gpus=0)
def train(lr):
    return lr

train.submit(lr=0.1)
train.submit_many([{"lr": 0.1}, {"lr": 0.01}], sweep="lr-1")
"""
CHAIN = """
import weft

@weft.job(gpus=0, chdir="/")
def again(number):
    again.submit(number + 1)

if __name__ == "__main__":
    again.submit(1)
"""


def test_functions_that_submit_jobs_as_they_are_imported_or_without_end_are_stopped(here: Site) -> None:
    (here.root / "unguarded.py").write_text(UNGUARDED)
    (here.root / "chain.py").write_text(CHAIN)
    assert [run(here, name).returncode for name in ("unguarded.py", "chain.py")] == [0, 0]
    jobs = until(
        lambda: (
            (rows := json.loads(here.weft("queue", "-a", "--json", check=True).stdout)["jobs"])
            and len(rows) == 6
            and all(row["ended"] for row in rows)
            and rows
        )
    )
    assert [row["status"] for row in sorted(jobs, key=lambda row: int(row["id"]))] == [
        *["failed"] * 3,
        "done",
        "done",
        "failed",
    ]
    assert "put the lines that submit below: if __name__ ==" in here.weft("logs", "1").stdout
    assert "chain.py:again has submitted itself in a chain of 3 jobs" in here.weft("logs", "6").stdout


@pytest.mark.soak
def test_the_search_of_the_example_improves(here: Site) -> None:
    pytest.importorskip("optuna")
    done = run(here, str(EXAMPLES / "optuna_search.py"), "--trials", "4", "--parallel", "4")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("best of 4 trials: loss ")
    trials = results(here, "optuna")
    assert [set(trial["params"]) for trial in trials] == [{"lr", "momentum"}] * 4
    best = min(trial["metrics"]["loss"] for trial in trials)
    assert f"loss {best:.3g} " in done.stdout
