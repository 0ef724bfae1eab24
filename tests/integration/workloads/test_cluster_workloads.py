"""Real training on a cluster whose workers declare GPUs: `examples/sample_task.json` as it is, and profiles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.live_cluster import OVER, Cluster, cluster
from support.running.local_scheduler import until
from support.running.loopback_namespace import need_torch
from support.weft_cli import Weft

SAMPLE = str(Path(__file__).parents[3] / "examples" / "sample_task.json")
GPU = ("--gpus", "0", "--models", "RTX3090", "--memories", "24576")
ENV = ("--env", "GLOO_SOCKET_IFNAME=lo", "--env", "WEFT_DATA_DIR")
PATIENCE_S = 240.0


@pytest.fixture(scope="module")
def here() -> Iterator[Cluster]:
    """Two workers with a GPU each: the two processes of the task are on different nodes."""
    need_torch()
    with cluster() as made:
        made.env["WEFT_DATA_DIR"] = f"{made.root}/data"
        for name in ("n1", "n2"):
            made.start(name, "worker", "--id", name, *GPU)
        until(lambda: made.connected() == {"n1", "n2"})
        yield made


def submit(here: Cluster, *flags: str) -> str:
    (job,) = here.json(
        "submit", "--config", SAMPLE, "--env", "GLOO_SOCKET_IFNAME=lo", "--env", "WEFT_DATA_DIR", *flags
    )["ids"]
    return str(job)


@pytest.mark.soak
def test_the_sample_task_trains_on_a_cluster(here: Cluster) -> None:
    job = submit(here)
    until(lambda: ((here.job(job)["progress"] or {}).get("step") or 0) >= 1, PATIENCE_S)
    found = here.job(job)
    assert (found["name"], found["gpus"], found["memory_mb"]) == ("ResNet50 Training", 2, 8192)
    assert found["progress"]["total"] == 180, "90 epochs of 256 images, two processes with batches of 64"
    assert found["progress"]["metrics"]["loss"] > 0
    assert here.where(job) == ["n1", "n2"]
    log = here.logs(job)
    assert "resnet50: size tiny" in log
    assert "ddp, 2 processes" in log
    here.weft("cancel", job)
    assert here.until_status(job, "cancelled")


@pytest.mark.parametrize("gpus", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_a_profile_of_real_training_has_times_memory_and_start(here: Cluster, gpus: int) -> None:
    params = ("model=resnet18", "size=tiny", "workers=2", "steps=100000", "evaluate_every=20")
    flags = ("--gpus", str(gpus), "--steps", "20", *ENV)
    done = here.call("profile", "run", "--json", *flags, *(f"--param={each}" for each in params))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    profile, stages = found["profile"], found["stages"]
    assert (profile["key"], profile["gpus"], profile["gpu_model"]) == ("resnet18", gpus, "RTX3090")
    assert (profile["source"], stages["workers"]) == ("run", 2)
    assert stages["steps"] >= 30
    assert stages["fetch_cpu_s"] > 0.001, "the loader's workers decode 16 images for a batch"
    assert stages["fetch_s"] >= 0.9 * stages["fetch_cpu_s"]
    assert profile["data_s"] == stages["data_s"] == pytest.approx(stages["fetch_s"] / 2, rel=0.01)
    assert 0 < profile["gpu_s"] <= stages["step_s"]
    assert (profile["net_s"] > 0, stages["separate_net"]) == (gpus > 1, gpus > 1)
    assert profile["start_s"] > 0.5, "torch is imported, data generated, a model built"
    assert stages["rss_mb"] > 100
    assert here.job("@")["status"] == "cancelled", "the job is stopped once it is measured"
    assert profile in json.loads(here.weft("profile", "list", "--json"))["profiles"]


@pytest.mark.soak
def test_the_sample_task_trains_to_its_end_on_a_cluster(here: Cluster) -> None:
    job = submit(here)
    until(lambda: here.job(job)["status"] in OVER, 1500.0)
    assert here.job(job)["status"] == "done", here.logs(job)
    assert float(here.job(job)["progress"]["metrics"]["accuracy"]) > 0.9


@pytest.mark.soak
def test_the_sample_task_trains_to_its_end_on_one_machine(weft: Weft, tmp_path: Path) -> None:
    need_torch()
    job = weft.submit("--config", SAMPLE, "--env", f"WEFT_DATA_DIR={tmp_path}")
    weft("wait", job)
    assert float(weft.show(job)["progress"]["metrics"]["accuracy"]) > 0.9
