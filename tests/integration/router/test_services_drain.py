"""Scale-in with real processes: a replica ends after the last answer of every router."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import support.programs.served_program
from support.running.local_scheduler import Site, site, until
from support.running.secured_cluster import free_port

PROGRAM = Path(support.programs.served_program.__file__)
GPUS = {"gpus": "0,1", "models": "A100,A100", "memories": "40960,40960", "min_run_s": 0.0}
SERVICE = f"""service: chat
run: exec {sys.executable} {PROGRAM}
share: 0.3/0.6
replicas: {{min: 2, max: 2}}
concurrency: 1
health: {{every: 200ms, start_within: 30s}}
timeouts: {{drain: 60s}}
"""


class Answers:
    """One long request to each of two replicas at the same time, and what became of them."""

    def __init__(self, url: str) -> None:
        self.found: list[str] = []
        self._threads = [threading.Thread(target=self._send, args=(url,), daemon=True) for _ in range(2)]
        for thread in self._threads:
            thread.start()

    def _send(self, url: str) -> None:
        try:
            with urllib.request.urlopen(url, timeout=60.0) as answer:
                self.found.append(answer.read().decode().strip())
        except urllib.error.HTTPError as error:
            with error:
                self.found.append(f"{error.code}")

    def wait(self) -> list[str]:
        for thread in self._threads:
            thread.join(60.0)
        return sorted(self.found)


def service(here: Site) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(here.weft("services", "--json", check=True).stdout)["services"][0]
    return found


def deploy(here: Site, answer_s: float) -> str:
    (here.root / "chat.yaml").write_text(SERVICE + f"env: {{ANSWER_S: '{answer_s}'}}\n")
    return here.weft("deploy", "chat.yaml", "--wait", check=True).stdout.strip() + "/x"


@contextlib.contextmanager
def second_router(here: Site) -> Iterator[str]:
    """A router without requests, next to the one of the scheduler."""
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "weft", "router", "--listen", address]
    router = subprocess.Popen(command, env=here.env, cwd=here.root, stderr=subprocess.DEVNULL)
    try:
        until(lambda: _serves(f"http://{address}/-/healthz"))
        yield address
    finally:
        router.terminate()
        router.wait(30.0)


def _serves(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5.0).close()
    except OSError:
        return False
    return True


def test_a_replica_ends_after_the_answers_of_every_router() -> None:
    with site(GPUS) as here:
        url = deploy(here, 6.0)
        with second_router(here):
            answers = Answers(url)
            until(lambda: service(here)["in_flight"] == 2)
            here.weft("scale", "chat", "1", check=True)
            assert answers.wait() == ["chat.0", "chat.1"]
            until(lambda: len(service(here)["replicas"]) == 1)
        here.weft("undeploy", "chat", check=True)


def test_a_new_scheduler_waits_for_the_routers_of_the_one_before() -> None:
    with site(GPUS) as here:
        url = deploy(here, 8.0)
        router = json.loads((here.paths.state / "router.json").read_bytes())["process"][1]
        answers = Answers(url)
        until(lambda: service(here)["in_flight"] == 2)
        here.weft("scale", "chat", "1", check=True)
        os.kill(router, signal.SIGSTOP)
        try:
            here.kill9()
            here.weft("up", check=True)
            time.sleep(2.0)  # the time in which the new scheduler has no router
        finally:
            os.kill(router, signal.SIGCONT)
        assert answers.wait() == ["chat.0", "chat.1"]
        until(lambda: len(service(here)["replicas"]) == 1)
        here.weft("undeploy", "chat", check=True)
