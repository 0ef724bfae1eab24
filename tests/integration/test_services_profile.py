"""Dilu's HTTP interface and live profiles of services, with real processes."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import support.plain_program
from support.local_scheduler import Site, site, until
from support.secured_cluster import free_port

PROGRAM = Path(support.plain_program.__file__)
GPUS = {"gpus": "0,1", "models": "A100,A100", "memories": "40960,40960", "min_run_s": 0.0}


@pytest.fixture(scope="module")
def here() -> Iterator[Site]:
    with site(GPUS) as made:
        yield made


class Dilu:
    """A client of the interface."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token

    def post(self, path: str, task: Any, **headers: str) -> Any:
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **headers}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", json.dumps(task).encode(), sent, method="POST"
        )
        with urllib.request.urlopen(request, timeout=60.0) as answer:
            return answer.read().decode()

    def status(self, path: str, task: Any, **headers: str) -> int:
        with pytest.raises(urllib.error.HTTPError) as caught:
            self.post(path, task, **headers)
        caught.value.close()
        return caught.value.code


@pytest.fixture(scope="module")
def dilu(here: Site) -> Iterator[Dilu]:
    here.weft("up", check=True)
    port = free_port()
    words = ["router", "--listen", f"127.0.0.1:{free_port()}", "--dilu-api", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", *words], env=here.env, cwd=here.root, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield Dilu(port, Path(line.strip().rpartition(" ")[2]).read_text().strip())
    finally:
        process.terminate()
        process.communicate(timeout=60.0)


def services(here: Site) -> dict[str, Any]:
    return {each["name"]: each for each in json.loads(here.weft("services", "--json", check=True).stdout)["services"]}


def test_tasks_of_dilu_become_services_and_jobs(here: Site, dilu: Dilu) -> None:
    dilu.post("/register_service", {"service_name": "roberta", "throughput": 48, "window": 40, "scale_out": 20})
    task = {
        "service_name": "roberta", "type": "inference", "command": [sys.executable, str(PROGRAM)], "sm_request": 0.3,
        "sm_limit": 0.6, "memory": 6, "gpu_num": 1,
    }  # fmt: skip
    first = json.loads(dilu.post("/schedule", task))
    assert (first["instances"], first["status"]) == (1, "deployed")
    assert dilu.post("/roberta/predict", {"x": 1}).startswith("warmed up by")
    second = json.loads(dilu.post("/schedule", task))
    assert second["instances"] == 2
    until(lambda: services(here)["roberta"]["ready"] == 2)
    assert services(here)["roberta"]["scaler"] == "lazy:window=40:out=20"
    training = {"name": "bert", "type": "training", "command": "echo trained", "gpu_num": 1, "memory": [4]}
    job = json.loads(dilu.post("/schedule", training))["instance_id"]
    assert here.weft("wait", job, check=True).returncode == 0
    dilu.post("/delete_instance", {"instance_id": second["instance_id"]})
    dilu.post("/delete_instance", {"instance_id": first["instance_id"]})
    until(lambda: "roberta" not in services(here))


def test_the_interface_refuses_strangers_and_bad_tasks(dilu: Dilu) -> None:
    assert dilu.status("/schedule", {}, Authorization="Bearer wrong") == 401
    assert dilu.status("/schedule", {}, Host="evil.example") == 421
    assert dilu.status("/schedule", {}, Origin="http://evil.example") == 403
    assert dilu.status("/schedule", {"service_name": "a", "type": "inference"}) == 400
    assert dilu.status("/schedule", {"service_name": "a", "type": "dance", "command": "x"}) == 400
    assert dilu.status("/delete_instance", {"instance_id": "nothing/1"}) == 400
    assert dilu.status("/nothing", {}) == 404


@pytest.mark.usefixtures("dilu")
def test_a_service_is_profiled_by_trials(here: Site) -> None:
    lines = ["service: plain", f"run: exec {sys.executable} {PROGRAM}", "share: 0.3/0.6", "retry: unanswered"]
    (here.root / "plain.yaml").write_text("\n".join(lines) + "\n")
    here.weft("deploy", "plain.yaml", "--wait", check=True)
    words = ["--slo", "30s", "--shares", "20,40", "--max-batch", "2", "--rounds", "1", "--path", "/x", "--json"]
    found = json.loads(here.weft("profile", "service", "plain", *words, check=True).stdout)
    assert (found["share"], found["batch"], found["trials"]) == (0.2, 2, 2)
    assert here.weft("profile", "service", "plain", "--slo", "1s", "--shares", "40,20").returncode == 2
    until(lambda: services(here).keys() == {"plain"})
    here.weft("undeploy", "plain", check=True)
    until(lambda: not services(here))
