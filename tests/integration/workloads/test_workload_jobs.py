"""Workloads as jobs and as several processes: real schedulers, real signals, real launchers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.running.local_scheduler import until
from support.running.loopback_namespace import need_mpirun, need_torch, needed
from support.running.secured_cluster import free_port
from support.weft_cli import Weft
from weft.access.jobspec.taskfile import read_tasks
from weft.access.jobspec.workloads import command_for
from weft.access.wire.convert import pairs

ROOT = Path(__file__).resolve().parents[3]
TASKS = sorted((ROOT / "examples" / "training").glob("*.json"))
FORMS = ROOT / "tests" / "support" / "programs" / "workload_forms.py"


def surroundings(data: Path) -> dict[str, str]:
    """The environment of a process that belongs to no job."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("WEFT_", "OMPI_", "PET_"))}
    return {**kept, "WEFT_DATA_DIR": str(data), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def test_a_preempted_model_ends_with_the_same_bits(weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_torch()
    import torch

    from weft_workloads.settings import read_settings
    from weft_workloads.training import loop

    params = {"model": "gpt2", "size": "tiny", "steps": "600", "batch_size": "1", "sequence_length": "8"}
    given = [f"--param={name}={text}" for name, text in {**params, "checkpoints": f"{tmp_path}/broken"}.items()]
    broken = weft.submit("--gpus", "1", *given, "--env", f"WEFT_DATA_DIR={tmp_path}")
    until(lambda: ((weft.show(broken)["progress"] or {}).get("step") or 0) >= 1)
    weft("submit", "--gpus", "2", "--priority", "10", "--", "true")
    weft("wait", broken)
    shown = weft.show(broken)
    assert (shown["run"], shown["preemptions"], shown["failures"]) == (2, 1, 0), weft("logs", broken).out
    first = weft("logs", "--run", "1", broken).out
    saved = int(first.rpartition("asked to stop: saved after step ")[2])
    assert f"steps {saved} to 600" in weft("logs", broken).out
    assert (shown["progress"]["step"], shown["progress"]["total"]) == (600, 600)
    monkeypatch.setenv("WEFT_DATA_DIR", str(tmp_path))
    loop.run(read_settings({**params, "checkpoints": str(tmp_path / "whole")}))
    states = [torch.load(tmp_path / name / "step-000000600" / "state.pt", weights_only=True)["model"]
              for name in ("broken", "whole")]  # fmt: skip
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_task_files_of_the_examples_are_valid(path: Path) -> None:
    (task,) = read_tasks(str(path))
    spec = task.spec()
    assert spec.gpus >= 1
    if not spec.command:
        assert command_for(dict(pairs(spec.params))).per_gpu


def test_the_training_functions_of_dilu_have_task_files() -> None:
    expected = {
        "bert-base": (4, "0.3/0.9", [33], "192"), "roberta-large": (2, "0.5/0.9", [29], "64"),
        "resnet152": (2, "0.3/0.6", [28], "128"), "llama2-7b": (4, "0.5/0.9", [35, 39, 39, 35], "8"),
    }  # fmt: skip
    for name, (gpus, share, memories, batch_size) in expected.items():
        task = json.loads((ROOT / "examples" / "training" / f"{name}.json").read_text())
        memory = task["memory"] if isinstance(task["memory"], list) else [task["memory"]]
        assert (task["gpus"], task["share"], memory) == (gpus, share, [f"{each}G" for each in memories])
        assert (task["params"]["model"], task["params"]["batch_size"]) == (name, batch_size)


@pytest.mark.soak
def test_every_form_resumes_to_the_same_bits_and_has_one_error(tmp_path: Path) -> None:
    need_torch()
    port = str(free_port())
    ranks = []
    for rank in range(2):
        env = {**surroundings(tmp_path), "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
               "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}  # fmt: skip
        command = [sys.executable, str(FORMS), str(tmp_path)]
        ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    outputs = [rank.communicate(timeout=280)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    report = json.loads(outputs[0].rpartition("report ")[2])
    resumed = [form for form, found in report.items() if "resumed" in found]
    assert resumed == ["pipeline llama2-7b", "ddp a2c", "fsdp resnet18"]
    for form in resumed:
        assert report[form]["resumed"] == report[form]["whole"], form
    missing = (
        "bad input: data is /nowhere/imagenet, which does not exist\n  give the path of imagenet, or make a small one: "
    )
    assert f"{missing}python -m weft_workloads make-data imagenet /nowhere/imagenet" in outputs[0]
    assert outputs[1].endswith("exit with 2\n"), "rank 0 has said it"
    assert report["fsdp gpt2"]["whole"] == pytest.approx(report["ddp gpt2"]["whole"], rel=1e-4)


@pytest.mark.soak
def test_mpirun_trains_as_ddp_does(tmp_path: Path) -> None:
    need_torch()
    need_mpirun()
    needed("mpi4py", shutil.which("mpirun") is not None and _has_mpi4py(), "make test installs it")
    words = ["-m", "weft_workloads", "--model", "gpt2", "--size", "tiny", "--batch-size", "8",
             "--checkpoints", str(tmp_path / "saved")]  # fmt: skip
    launcher = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2"]
    done = subprocess.run(
        [*launcher, sys.executable, *words, "--steps", "3"], env=surroundings(tmp_path), capture_output=True, text=True,
        timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "mpi, 2 processes" in done.stdout
    # a single process continues what two have begun
    done = subprocess.run(
        [sys.executable, *words, "--steps", "4"], env=surroundings(tmp_path), capture_output=True, text=True,
        timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "steps 3 to 4" in done.stdout


def _has_mpi4py() -> bool:
    return (
        subprocess.run([sys.executable, "-c", "from mpi4py import MPI"], capture_output=True, check=False).returncode
        == 0
    )


@pytest.mark.soak
@pytest.mark.parametrize("name", ["ddp", "torchrun", "mpirun", "fsdp", "pipeline", "games"])
def test_the_examples_train(weft: Weft, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_torch()
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    variables = [f"--env={variable}={text}" for variable, text in surroundings(tmp_path).items()
                 if variable.startswith(("OMPI_", "WEFT_DATA"))]  # fmt: skip
    file = ROOT / "examples" / "training" / f"{name}.json"
    job = weft.submit("--config", str(file), "--param", "steps=10", *variables)
    weft("wait", job)
    log = weft("logs", job).out
    assert log.rstrip().endswith("done"), log
    assert ("1 process," if name == "games" else "2 processes,") in log


@pytest.mark.soak
@pytest.mark.parametrize("form", ["ddp", "fsdp", "torchrun", "mpirun"])
def test_a_preempted_gang_of_processes_continues(
    weft: Weft, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_torch()
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    env = [f"--env={name}={text}" for name, text in surroundings(tmp_path).items()
           if name.startswith(("OMPI_", "WEFT_DATA"))]  # fmt: skip
    options = ["--model", "gpt2", "--size", "tiny", "--steps", "800", "--batch-size", "1", "--sequence-length", "8",
               "--checkpoints", str(tmp_path / "saved")]  # fmt: skip
    if form in ("ddp", "fsdp"):
        pairs = zip(options[::2], options[1::2], strict=True)
        words = [f"--param={name[2:].replace('-', '_')}={text}" for name, text in pairs] + [f"--param=parallel={form}"]
    elif form == "torchrun":
        words = ["--", "torchrun", "-m", "weft_workloads", *options]
    else:
        env.append("--env=OMPI_MCA_odls_base_sigkill_timeout=10")
        words = ["--", "mpirun", "--bind-to", "none", "python", "-m", "weft_workloads", *options]
    job = weft.submit("--gpus", "2", *env, *words)
    until(lambda: ((weft.show(job)["progress"] or {}).get("step") or 0) >= 1, 120)
    weft("submit", "--gpus", "1", "--priority", "10", "--", "true")
    weft("wait", job)
    shown = weft.show(job)
    assert (shown["run"], shown["preemptions"], shown["failures"]) == (2, 1, 0), weft("logs", job).out
    (begun,) = re.findall(r"^steps (\d+) to 800", weft("logs", job).out, re.MULTILINE)
    assert 1 <= int(begun) < 800
    if form != "mpirun":  # which passes on no output once it is asked to stop
        assert f"asked to stop: saved after step {begun}" in weft("logs", "--run", "1", job).out
