"""`weft cluster up` and `down`: a whole cluster in one command, and nothing left of it after the other."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.local_scheduler import is_alive, until
from support.running.loopback_namespace import need_torch
from support.running.secured_cluster import free_port
from support.running.shell_user import Person, person_at

ROOT = Path(__file__).resolve().parents[4]
SPEC = """
nodes:
  - {count: 1, gpus: 2, gpu_model: A100, memory_mb: 40960, cpus: 96, ram_mb: 524288, switch: rack1, name: a}
  - {count: 1, gpus: 1, gpu_model: T4, memory_mb: 16384, switch: rack2, name: t, labels: {zone: eu}}
"""
FOR_EVER = "trap '' TERM; while :; do sleep 0.1; done"


@pytest.fixture
def person() -> Iterator[Person]:
    with person_at() as made:
        yield made


def test_up_jobs_run_down_and_nothing_is_left(person: Person) -> None:
    (person.root / "cluster.yaml").write_text(SPEC)
    port = str(free_port())
    shown = person.weft("cluster", "up", "--spec", "cluster.yaml", "--port", port, "--policy", "fifo").stdout
    assert shown.startswith(f"2 nodes with 3 GPUs at localhost:{port}\n")
    assert f"export WEFT_SCHEDULER=localhost:{port}" in shown
    assert f"weft cluster down --port {port}" in shown
    again = person.weft("cluster", "up", "--nodes", "1", "--port", port, code=6).stderr
    assert "a cluster already runs" in again
    person.env["WEFT_SCHEDULER"] = f"localhost:{port}"
    a0, t0 = sorted(person.json("nodes")["nodes"], key=lambda node: str(node["node"]))
    assert (a0["node"], a0["state"], a0["gpus"], a0["cpus"], a0["ram_mb"]) == ("a0", "connected", 2, 96, 524288)
    assert (t0["node"], t0["state"], t0["gpus"], t0["cpus"], t0["labels"]["zone"]) == ("t0", "connected", 1, 0, "eu")
    gpus = {(gpu["node"], gpu["gpu"]): (gpu["model"], gpu["memory_mb"]) for gpu in person.json("gpus")["gpus"]}
    assert gpus == {("a0", 0): ("A100", 40960), ("a0", 1): ("A100", 40960), ("t0", 0): ("T4", 16384)}
    assert person.weft("run", "--gpus", "3", "-q", "--", "sh", "-c", "echo $WEFT_NUM_NODES").stdout == "2\n"
    person.weft("submit", "--gpus", "2", "--grace", "1h", "--", "sh", "-c", FOR_EVER)
    until(lambda: person.json("show", "2")["jobs"][0]["status"] == "running")
    down = person.json("cluster", "down", "--port", port)
    assert (sorted(down["ended"]), down["jobs"], down["left"]) == (["a0", "server", "t0"], 1, [])
    until(lambda: not person.left())
    assert person.json("cluster", "status")["clusters"] == []
    assert person.json("cluster", "down", "--port", port)["ended"] == []


def test_what_is_not_there_any_more_is_no_trouble_and_what_is_kept_goes_on(person: Person) -> None:
    port = str(free_port())
    up = ("cluster", "up", "--nodes", "2", "--gpus-per-node", "1", "--port", port)
    person.weft(*up)
    flag = ("--scheduler", f"localhost:{port}")
    for name in ("runs", "waits"):
        person.weft("submit", *flag, "--name", name, "--gpus", "2", "--", "sh", "-c", FOR_EVER)
    until(lambda: person.json("show", *flag, "runs")["jobs"][0]["status"] == "running")
    processes = person.processes()
    for name in ("server", "n1"):
        os.kill(processes[name], signal.SIGKILL)
    until(lambda: not is_alive(processes["server"]) and not is_alive(processes["n1"]))
    (status,) = person.json("cluster", "status")["clusters"]
    assert (status["server"], status["running"], status["workers"]) == ("gone", 1, 2)
    assert person.json("cluster", "down", "--port", port)["ended"] == ["n0"]
    until(lambda: not person.left())
    person.weft(*up)
    statuses = {job["name"]: job["status"] for job in person.json("queue", *flag, "-a")["jobs"]}
    assert set(statuses) == {"runs", "waits"}
    person.weft("cluster", "down", "--port", port, "--clean")
    assert not (person.root / "s" / "weft" / "servers" / port).exists()
    until(lambda: not person.left())


def test_the_sample_task_is_trained_there(person: Person) -> None:
    need_torch()
    port = str(free_port())
    person.weft("cluster", "up", "--nodes", "1", "--gpus-per-node", "2", "--port", port)
    flag = ("--scheduler", f"localhost:{port}")
    task = ("--config", str(ROOT / "examples" / "sample_task.json"), "--param", "epochs=3")
    job = person.weft("submit", "-q", *flag, *task, "--env", f"WEFT_DATA_DIR={person.root}/data").stdout.strip()
    person.weft("wait", *flag, job)
    (shown,) = person.json("show", *flag, job)["jobs"]
    assert (shown["name"], shown["gpus"], shown["memory_mb"]) == ("ResNet50 Training", 2, 8192)
    assert shown["params"]["learning_rate"] == "0.001"
    log = person.weft("logs", *flag, job).stdout
    assert log.startswith("resnet50: size tiny (no GPU"), log
    assert "ddp, 2 processes, data: generated" in log
    # 256 images, in batches of 64 for each of two processes
    assert "steps 0 to 6, 2 an epoch\n" in log
    assert (shown["progress"]["step"], shown["progress"]["total"]) == (6, 6)
    assert {"loss", "evaluation_loss", "accuracy"} <= set(shown["progress"]["metrics"])
    person.weft("cluster", "down", "--port", port)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--nodes", "0"), 2, "--nodes"),
        (("--nodes", "1000"), 2, "nodes on one machine"),
        (("--gpus-per-node", "0"), 2, "a cluster needs GPUs"),
        (("--spec", "n3g8"), 2, "no cluster"),
        (("--spec", "n1g8", "--nodes", "2"), 2, "--spec excludes --nodes"),
        (("--spec", "1x1", "--policy", "nothing-like-it"), 1, "unknown policy"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_stays(person: Person, words: tuple[str, ...], code: int, says: str) -> None:
    said = person.weft("cluster", "up", "--port", str(free_port()), *words, code=code).stderr
    assert says in said
    assert person.left() == []
    assert person.json("cluster", "status")["clusters"] == []


def test_a_port_that_is_taken_is_left_alone(person: Person) -> None:
    with socket.create_server(("127.0.0.1", 0)) as line:
        port = str(line.getsockname()[1])
        assert "another program already listens" in person.weft("cluster", "up", "--port", port, code=6).stderr


def test_the_ones_that_ship_are_brought_up(person: Person) -> None:
    found = person.json("cluster", "up", "--spec", "n2g8", "--port", "0")
    assert (found["nodes"], found["gpus"]) == (["n0", "n1"], 16)
    port = found["scheduler"].rpartition(":")[2]
    nodes = person.json("nodes", "--scheduler", found["scheduler"])["nodes"]
    assert [(node["cpus"], node["ram_mb"]) for node in nodes] == [(92, 520 * 1024)] * 2
    person.weft("cluster", "down", "--port", port)
    until(lambda: not person.left())


def test_down_ends_the_only_cluster_and_asks_which_of_several(person: Person) -> None:
    ports = [str(free_port()), str(free_port())]
    for port in ports:
        person.weft("cluster", "up", "--nodes", "1", "--gpus-per-node", "1", "--port", port)
    refused = person.weft("cluster", "down", code=2).stderr
    assert "2 clusters are up: " in refused
    assert all(f"localhost:{port}" in refused for port in ports)
    person.env["WEFT_SCHEDULER"] = f"localhost:{ports[0]}"
    assert person.json("cluster", "down")["scheduler"] == f"localhost:{ports[0]}"
    del person.env["WEFT_SCHEDULER"]
    down = person.json("cluster", "down")
    assert (down["scheduler"], down["ended"]) == (f"localhost:{ports[1]}", ["server", "n0"])
    until(lambda: not person.left())
    assert person.json("cluster", "down")["ended"] == []
