"""A service on a real cluster: replicas on two workers behind a router, and workers that die."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import support.served_program
from support.live_cluster import Cluster, cluster
from support.local_scheduler import until
from support.service_requests import Requests, get
from weft.engines.process.free_ports import find_free_port

PROGRAM = Path(support.served_program.__file__)
FILE = f"""service: chat
run: exec {sys.executable} {PROGRAM}
memory: 1G
replicas: {{min: 0, max: 4, to_zero_after: 600s}}
concurrency: 4
health: {{every: 200ms, start_within: 30s}}
timeouts: {{drain: 5s}}
"""


@pytest.fixture(scope="module")
def here() -> Iterator[Cluster]:
    with cluster("n1", "n2") as made:
        yield made


def service(here: Cluster) -> dict[str, Any]:
    (found,) = here.json("services")["services"]
    return dict(found)


def test_a_service_on_two_nodes_survives_the_loss_of_one(here: Cluster) -> None:
    (here.root / "chat.yaml").write_text(FILE)
    port = find_free_port()
    here.start("router", "router", "--listen", f"127.0.0.1:{port}")
    until(lambda: "listens" in here.out("router"))
    here.weft("deploy", str(here.root / "chat.yaml"))
    until(lambda: service(here)["url"] == f"http://127.0.0.1:{port}/chat")
    url = f"http://127.0.0.1:{port}/chat/x"
    assert get(url) == "chat.0 ", "the first request starts a replica"
    here.weft("scale", "chat", "4")
    until(lambda: service(here)["ready"] == 4)
    assert {replica["gpus"].partition("[")[0] for replica in service(here)["replicas"]} == {"n1", "n2"}
    with Requests(url) as requests:
        until(lambda: len(requests.answers) > 5)
        here.end("n2")  # it says goodbye: its replicas start elsewhere when there is room, and drain before
        until(lambda: service(here)["ready"] == 2)
        before = len(requests.answers)
        until(lambda: len(requests.answers) > before + 10)
    assert len(requests.failures) <= 2, requests.failures
    here.weft("undeploy", "chat")
    until(lambda: not here.json("services")["services"])
