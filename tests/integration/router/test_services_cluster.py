"""A service on a real cluster: replicas on two workers behind a router, and workers that die."""

from __future__ import annotations

import json
import os
import signal
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import support.programs.served_program
from support.listeners import pid_of_listener
from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until
from support.running.secured_cluster import gate
from support.service_requests import Requests, get
from weft.access.endpoints.credentials import Credentials
from weft.views.answers.services import ServiceView
from weft.web.live.latency import LatencyReader

PROGRAM = Path(support.programs.served_program.__file__)
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


def test_replicas_of_a_dead_machine_get_substitutes_long_before_its_jobs_do(here: Cluster) -> None:
    (here.root / "chat.yaml").write_text(FILE.replace("min: 0, max: 4", "min: 2, max: 2"))
    url = here.weft("deploy", str(here.root / "chat.yaml"), "--wait").strip() + "/x"
    node = service(here)["replicas"][0]["gpus"].partition("[")[0]
    victims = [each for each in service(here)["replicas"] if each["gpus"].startswith(node)]
    job = here.submit("sleep", "600", flags=("--gpus", "0", "--node", node))
    until(lambda: here.json("show", job)["jobs"][0]["status"] == "running")
    here.kill9(node)
    for each in victims:
        os.kill(pid_of_listener(int(each["address"].rpartition(":")[2])), signal.SIGKILL)
    wanted = sorted([(node, "unreachable")] * len(victims) + [("n2" if node == "n1" else "n1", "ready")] * 2)

    def places() -> list[tuple[str, str]]:
        return sorted((each["gpus"].partition("[")[0], each["status"]) for each in service(here)["replicas"])

    until(lambda: places() == wanted, 40.0)
    assert f"{len(victims)} unreachable" in here.weft("why", "chat")
    assert get(url).startswith("chat.")
    here.work(node)
    until(lambda: [each["status"] for each in service(here)["replicas"]] == ["ready", "ready"])
    shown = here.json("show", job)["jobs"][0]
    assert (shown["status"], shown["run"]) == ("running", 1), "its run was never doubled"
    here.weft("cancel", job)
    here.weft("undeploy", "chat", "--now")
    until(lambda: not here.json("services")["services"])


def test_a_service_on_two_nodes_survives_the_loss_of_one(here: Cluster) -> None:
    (here.root / "chat.yaml").write_text(FILE)
    base = here.weft("deploy", str(here.root / "chat.yaml")).strip()
    assert base.startswith("http://127.0.0.1:"), "the scheduler starts a router"
    url = f"{base}/x"
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
        before = len(requests.answers)
        here.kill9("server")
        until(lambda: len(requests.answers) > before + 20)
        here.serve()
        until(lambda: service(here)["ready"] == 2)
        assert len(requests.failures) <= 2, requests.failures
    here.weft("undeploy", "chat")
    until(lambda: not here.json("services")["services"])


def test_a_killed_router_is_replaced_after_a_restart_of_its_server(here: Cluster) -> None:
    (here.root / "chat.yaml").write_text(FILE)
    url = here.weft("deploy", str(here.root / "chat.yaml")).strip() + "/x"
    assert get(url) == "chat.0 "
    here.kill9("server")
    here.serve()
    until(lambda: service(here)["ready"] == 1)
    with Requests(url) as requests:
        router = json.loads((here.folder / "router.json").read_bytes())["process"][1]
        os.kill(router, signal.SIGKILL)  # connections wait until the next one accepts them
        before = len(requests.answers)
        until(lambda: len(requests.answers) > before + 10)
    assert len(requests.failures) <= 1, requests.failures
    here.weft("undeploy", "chat")
    until(lambda: not here.json("services")["services"])


def test_a_router_that_other_machines_reach_has_tls_and_asks_for_tokens() -> None:
    with gate("--router", "0.0.0.0", worker=True) as here:
        at = ("--scheduler", str(here.where))
        (here.root / "chat.yaml").write_text(FILE)
        url = here.weft("deploy", "chat.yaml", *at).stdout.strip()
        assert url.startswith("https://")
        done = here.weft("call", "chat", "/x", *at)
        assert (done.stdout, done.returncode) == ("chat.0 ", 0), done.stderr
        known = {**here.env, "WEFT_SCHEDULER": str(here.where)}
        sent = json.loads(here.weft("load", "chat", "--rps", "20", "--duration", "1s", "--json", env=known).stdout)
        assert (sent["ok"], set(sent["codes"])) == (sent["requests"], {"200"})
        trust = ssl.create_default_context(cadata=(here.ca() or b"").decode())
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{url}/x", context=trust, timeout=30.0)
        views = [ServiceView(name="chat", url=url)]
        median_s, p95_s = LatencyReader(here.owner()).read(views)["chat"]
        assert 0 < (median_s or 0) <= (p95_s or 0) < 30
        assert LatencyReader().read(views) == {}, "without the certificate of the cluster, it asks no router"
        assert LatencyReader(Credentials("wrong", here.ca())).read(views) == {}
        here.weft("undeploy", "chat", *at)
        until(lambda: not json.loads(here.weft("services", "--json", *at).stdout)["services"])
