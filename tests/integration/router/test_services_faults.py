"""Faults of services with real processes that take long: hangs, full GPUs, long streams, lost nodes."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import support.programs.served_program
from support.listeners import pid_of_listener
from support.running.live_cluster import cluster
from support.running.local_scheduler import Site, site, until
from support.service_requests import Requests, get

PROGRAM = Path(support.programs.served_program.__file__)
GPUS = {"gpus": "0,1", "models": "A100,A100", "memories": "40960,40960", "min_run_s": 0.0}
pytestmark = pytest.mark.soak


def describe(replicas: str, *more: str) -> str:
    lines = ["service: chat", f"run: exec {sys.executable} {PROGRAM}", f"replicas: {replicas}",
             "health: {every: 200ms, start_within: 30s}", *more]  # fmt: skip
    return "\n".join(lines) + "\n"


def service(here: Site) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(here.weft("services", "--json", check=True).stdout)["services"][0]
    return found


def deploy(here: Site, text: str, *words: str) -> str:
    (here.root / "chat.yaml").write_text(text)
    return here.weft("deploy", "chat.yaml", *words, check=True).stdout.strip()


def test_a_replica_that_hangs_is_replaced() -> None:
    with site(GPUS) as here:
        url = deploy(here, describe("{min: 2, max: 2}", "timeouts: {answer: 2s}", "share: 0.3/0.6"), "--wait")
        victim = service(here)["replicas"][0]
        pid = pid_of_listener(int(victim["address"].rpartition(":")[2]))
        os.kill(pid, signal.SIGSTOP)
        until(lambda: victim["address"] not in [each["address"] for each in service(here)["replicas"]])
        until(lambda: service(here)["ready"] == 2)
        with Requests(f"{url}/x") as requests:
            until(lambda: len(requests.answers) > 20)
        assert not requests.failures


def test_requests_to_a_service_without_a_gpu_wait_then_get_503() -> None:
    with site(GPUS) as here:
        here.weft("submit", "--name", "train", "--gpus", "2", "--priority", "9", "--", "sleep", "600", check=True)
        until(lambda: "R" in here.weft("queue", "--format", "state", "--no-header").stdout)
        here.weft("up", "--policy", "fifo", check=True)
        url = deploy(here, describe("{min: 1, max: 1}", "timeouts: {queue: 2s}"))
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{url}/x", timeout=60.0)
        with caught.value as answer:
            assert (answer.code, answer.headers["Retry-After"]) == (503, "1")
        words = here.weft("why", "chat", check=True).stdout
        assert "no node has 1 GPU" in words
        assert "held by training on 2 GPUs" in words


def test_a_long_answer_ends_before_its_replica_does() -> None:
    with site(GPUS) as here:
        text = describe("{min: 2, max: 2}", "share: 0.3/0.6", "env: {ANSWER_S: '6'}", "timeouts: {drain: 30s}")
        url = deploy(here, text, "--wait")
        found: list[str] = []
        threads = [threading.Thread(target=lambda: found.append(get(f"{url}/x"))) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: service(here)["in_flight"] == 4)
        here.weft("scale", "chat", "1", check=True)
        for thread in threads:
            thread.join(60.0)
        assert len(found) == 4
        until(lambda: len(service(here)["replicas"]) == 1)


def test_replicas_of_a_node_that_dies_start_elsewhere() -> None:
    with cluster("n1", "n2", options=("--policy", "fifo", "--min-run", "0", "--lease", "5")) as here:
        (here.root / "chat.yaml").write_text(describe("{min: 2, max: 2}"))
        url = here.weft("deploy", str(here.root / "chat.yaml"), "--wait").strip()

        def replicas() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = here.json("services")["services"][0]["replicas"]
            return found

        with Requests(f"{url}/x") as requests:
            until(lambda: len(requests.answers) > 5)
            victims = [each for each in replicas() if each["gpus"].startswith("n1")]
            here.kill9("n1")
            for each in victims:
                os.kill(pid_of_listener(int(each["address"].rpartition(":")[2])), signal.SIGKILL)
            until(lambda: [r["gpus"][:2] for r in replicas() if r["status"] == "ready"] == ["n2", "n2"])
            before = len(requests.answers)
            until(lambda: len(requests.answers) > before + 10)
        assert not requests.failures
        here.weft("undeploy", "chat")
