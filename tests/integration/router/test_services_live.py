"""Services on one machine, with real processes: deployments, requests, faults."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import support.programs.served_program
from support.listeners import pid_of_listener
from support.running.local_scheduler import Site, is_alive, site, until
from support.running.secured_cluster import free_port
from support.service_requests import Requests, answer_or_nothing, get
from weft.node.bringup.router_process import RouterProcess

PROGRAM = Path(support.programs.served_program.__file__)
GPUS = {"gpus": "0,1", "models": "A100,A100", "memories": "40960,40960", "min_run_s": 0.0}


@pytest.fixture(scope="module")
def here() -> Iterator[Site]:
    with site(GPUS) as made:
        yield made


def deploy(
    here: Site, *more: str, replicas: str = "{min: 1, max: 4}", name: str = "chat", env: str = "", drain: str = "5s"
) -> str:  # fmt: skip
    """Deploy a service, and return its URL."""
    lines = [f"service: {name}", f"run: exec {sys.executable} {PROGRAM}", "share: 0.2/0.4", "memory: 1G",
             f"replicas: {replicas}", "concurrency: 4", "health: {every: 200ms, start_within: 30s}",
             f"timeouts: {{drain: {drain}}}", f"env: {{{env}}}"]  # fmt: skip
    (here.root / f"{name}.yaml").write_text("\n".join(lines) + "\n")
    return here.weft("deploy", f"{name}.yaml", *more, check=True).stdout.strip()


def services(here: Site) -> dict[str, dict[str, Any]]:
    found = json.loads(here.weft("services", "--json", check=True).stdout)
    return {each["name"]: each for each in found["services"]}


def undeploy(here: Site, name: str = "chat") -> None:
    here.weft("undeploy", name, check=True)
    until(lambda: name not in services(here))


def test_a_service_is_deployed_updated_scaled_rolled_back_and_removed(here: Site) -> None:
    url = deploy(here, "--wait", env="NAME: one")
    assert get(f"{url}/x") == "chat.0 one"
    assert "unchanged" in here.weft("deploy", "chat.yaml", check=True).stderr
    with Requests(f"{url}/x") as requests:
        deploy(here, "--wait", env="NAME: two")
        until(lambda: requests.answers and requests.answers[-1].endswith("two"))
        here.weft("scale", "chat", "2", check=True)
        until(lambda: services(here)["chat"]["ready"] == 2)
        here.weft("rollback", "chat", check=True)
        until(lambda: requests.answers[-1].endswith("one"))
    assert not requests.failures
    until(lambda: {r["version"] for r in services(here)["chat"]["replicas"] if r["status"] == "ready"} == {3})
    undeploy(here)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(f"{url}/x")


def test_a_service_without_replicas_queues_requests_until_one_is_ready(here: Site) -> None:
    url = deploy(here, replicas="{min: 0, max: 2, to_zero_after: 1s}", env="START_S: '0.5'")
    until(lambda: services(here)["chat"]["wanted"] == 0 and not services(here)["chat"]["replicas"])
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(get(f"{url}/x"))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert len(found) == 20
    until(lambda: not services(here)["chat"]["replicas"])
    undeploy(here)


def test_killed_replicas_and_schedulers_lose_no_request(here: Site) -> None:
    url = deploy(here, "--wait", replicas="{min: 2, max: 2}")
    until(lambda: services(here)["chat"]["ready"] == 2)
    with Requests(f"{url}/x") as requests:
        until(lambda: len(requests.answers) > 5)
        victim = services(here)["chat"]["replicas"][0]
        port = int(victim["address"].rpartition(":")[2])
        os.kill(pid_of_listener(port), signal.SIGKILL)
        until(lambda: victim["address"] not in {r["address"] for r in services(here)["chat"]["replicas"]})
        until(lambda: services(here)["chat"]["ready"] == 2)
        before = len(requests.answers)
        here.kill9()
        until(lambda: len(requests.answers) > before + 10)
        until(lambda: services(here)["chat"]["ready"] == 2)
    assert not requests.failures
    undeploy(here)


def test_a_killed_router_starts_again_at_the_same_address(here: Site) -> None:
    url = deploy(here, "--wait")
    record = here.paths.state / "router.json"
    pid = json.loads(record.read_bytes())["process"][1]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(pid))
    until(lambda: answer_or_nothing(f"{url}/x").startswith("chat."))
    assert json.loads(record.read_bytes())["process"][1] != pid
    undeploy(here)


def test_a_version_that_never_gets_ready_is_rolled_back(here: Site) -> None:
    url = deploy(here, "--wait", env="NAME: good")
    first = services(here)["chat"]["replicas"][0]["address"]
    broken = (here.root / "chat.yaml").read_text().replace("NAME: good", "BROKEN: '1'").replace("30s", "500ms")
    (here.root / "chat.yaml").write_text(broken + "update: {tries: 2}\n")
    with Requests(f"{url}/x") as requests:
        done = here.weft("deploy", "chat.yaml", "--wait")
    assert done.returncode == 6
    assert "chat is as before: version 2 was rolled back: it never got ready" in done.stderr
    assert {answer.rpartition(" ")[2] for answer in requests.answers} == {"good"}
    assert not requests.failures
    found = services(here)["chat"]
    assert found["version"] == 3
    # the replica that served all the time stays; the autoscaler may have added another for the requests
    assert first in [each["address"] for each in found["replicas"] if each["status"] == "ready"]
    assert "version 2 was rolled back" in here.weft("services", check=True).stderr
    undeploy(here)


def test_a_version_that_answers_with_errors_goes_back_and_history_says_so(here: Site) -> None:
    url = deploy(here, "--wait", env="NAME: good", replicas="{min: 1, max: 1}")
    text = (here.root / "chat.yaml").read_text()
    with Requests(f"{url}/x"):
        until(lambda: services(here)["chat"]["rate"] > 0)
        (here.root / "chat.yaml").write_text(text.replace("NAME: good", "STATUS: '500'"))
        done = here.weft("deploy", "chat.yaml", "--wait")
        assert (done.returncode, "chat is as before: version 2 was rolled back" in done.stderr) == (6, True), (
            done.stderr
        )
        until(lambda: answer_or_nothing(f"{url}/x").endswith("good"))
    assert "answers were errors (5xx), 0% with the version before" in here.weft("services").stderr
    refused = here.weft("rollback", "chat")
    assert (refused.returncode, "no earlier version that was ready and not rolled back" in refused.stderr) == (6, True)
    assert "as version 4" in here.weft("rollback", "chat", "--to", "2", check=True).stderr
    until(lambda: answer_or_nothing(f"{url}/x") == "")
    history = json.loads(here.weft("services", "chat", "--json", check=True).stdout)["services"][0]["history"]
    assert [(each["version"], each["outcome"]) for each in history] == [
        (4, "live"), (3, "rolled back"), (2, "rolled back"), (1, "replaced"),
    ]  # fmt: skip
    assert [bool(each["who"]) for each in history] == [True, False, True, True]
    assert "served_program.py" in history[0]["summary"]
    assert "rolled back" in here.weft("services", "chat", "--history", check=True).stdout
    assert here.weft("rollback", "chat", "--to", "9").returncode == 6
    undeploy(here)


def test_a_first_version_that_cannot_start_ends_the_wait_and_its_requests(here: Site) -> None:
    lines = ["service: bad", "run: exit 3", "gpus: 0", "replicas: {min: 0, max: 2}", "update: {tries: 2}"]
    (here.root / "bad.yaml").write_text("\n".join(lines) + "\n")
    done = here.weft("deploy", "bad.yaml", "--wait", "--timeout", "50")
    assert done.returncode == 6
    assert "bad does not start: version 1 failed to start 2 times: exit code 3" in done.stderr
    until(lambda: services(here)["bad"]["url"] != "")
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(f"{services(here)['bad']['url']}/x", 10.0)
    assert (caught.value.code, b"exit code 3" in caught.value.read()) == (503, True)
    undeploy(here, "bad")


def test_undeploy_now_cuts_the_answers_under_way(here: Site) -> None:
    url = deploy(here, "--wait", env="ANSWER_S: '600'", name="slow", drain="600s")
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(answer_or_nothing(f"{url}/x")))
    thread.start()
    until(lambda: services(here)["slow"]["in_flight"] == 1)
    here.weft("undeploy", "slow", check=True)
    assert services(here)["slow"]["in_flight"] == 1
    here.weft("undeploy", "slow", "--now", check=True)
    until(lambda: "slow" not in services(here))
    thread.join(60.0)
    assert found == [""]


def test_a_router_ends_with_the_folder_of_its_scheduler(tmp_path: Path) -> None:
    state, runtime = tmp_path / "s", tmp_path / "r"
    state.mkdir()
    runtime.mkdir()
    router = RouterProcess(state, runtime)
    router.ensure()
    pid = json.loads((state / "router.json").read_bytes())["process"][1]
    assert is_alive(pid)
    shutil.rmtree(state)
    until(router.has_ended)
    router.stop()


def test_a_scheduler_adopts_the_socket_of_a_router_and_ends_one_that_listens_elsewhere(tmp_path: Path) -> None:
    def supervise(**where: Any) -> RouterProcess:
        return RouterProcess(tmp_path, tmp_path, **where)

    first = supervise()
    first.ensure()
    until((tmp_path / "router.sock").exists)
    next_one = supervise()

    def is_adopted() -> bool:
        next_one.adopt()
        return next_one.holds_socket

    until(is_adopted)
    assert next_one.address == first.address
    moved = supervise(port=free_port())
    moved.adopt()
    until(first.has_ended)
    moved.ensure()
    assert moved.address != first.address
    for each in (moved, next_one, first):
        each.stop()
    until(moved.has_ended)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("service: a\n", "needs 'run'"),
        ("service: a\nrun: x\nshare: 0.6/0.3\n", "a.yaml:3: the request 0.6 is over the limit 0.3"),
        ("service: v1\nrun: x\n", "v1 is a path of the router"),
        ("service: a\nrun: x\ngpus: 99\n", "a.yaml:1:"),
        ("service: a\nrun: x\nreplicas: {min: 0, max: 10001}\n", "a.yaml:3:"),
        ("service: [\n", "not YAML"),
    ],
)
def test_a_wrong_file_gets_one_clear_error(here: Site, text: str, words: str) -> None:
    (here.root / "a.yaml").write_text(text)
    done = here.weft("deploy", "a.yaml")
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_number_of_replicas_has_a_bound(here: Site) -> None:
    deploy(here, replicas="{min: 0, max: 2}", name="few")
    done = here.weft("scale", "few", "10001")
    assert done.returncode == 2
    assert "10,001 replicas are too many" in done.stderr
    assert "at most 10,000" in done.stderr
    assert services(here)["few"]["max_replicas"] == 2
    undeploy(here, "few")


def test_a_model_belongs_to_one_service(here: Site) -> None:
    def deploy_model(name: str, model: str) -> subprocess.CompletedProcess[str]:
        text = f"service: {name}\nrun: sleep 600\ngpus: 0\nreplicas: {{min: 0, max: 1}}\nmodels: [{model}]\n"
        (here.root / "m.yaml").write_text(text)
        return here.weft("deploy", "m.yaml")

    assert deploy_model("one", "gpt").returncode == 0
    done = deploy_model("two", "gpt")
    assert done.returncode == 6
    assert "model 'gpt' belongs to service one" in done.stderr
    assert deploy_model("two", "other").returncode == 0
    assert deploy_model("one", "gpt").returncode == 0, "its own model is no clash"
    undeploy(here, "one")
    assert deploy_model("two", "gpt").returncode == 0
    undeploy(here, "two")


def test_a_replica_that_waits_is_explained(here: Site) -> None:
    deploy(here, name="large", replicas="{min: 3, max: 3}")
    text = (
        (here.root / "large.yaml")
        .read_text()
        .replace("share: 0.2/0.4", "gpus: 2")
        .replace("service: large", "service: big")
    )
    (here.root / "big.yaml").write_text(text)
    done = here.weft("deploy", "big.yaml", "--wait", "--timeout", "4")
    assert done.returncode == 6
    assert done.stderr.startswith("weft: not ready yet: no node has 2 GPUs with 1,024 MB free"), (
        "it says so while it waits"
    )
    until(lambda: [each["status"] for each in services(here)["big"]["replicas"]].count("waiting") >= 2)
    last = services(here)["big"]["replicas"][-1]["job"]
    words = here.weft("why", last, check=True).stdout
    assert f"job {last} (2) is waiting" in words
    assert "Resources: needs 2 GPUs" in words
    assert here.weft("why", "big/2", check=True).stdout == words
    undeploy(here, "big")
    undeploy(here, "large")


def test_an_unknown_service_is_named(here: Site) -> None:
    here.weft("up", check=True)
    deploy(here, name="some")
    for words in (("undeploy", "nothing"), ("services", "nothing")):
        done = here.weft(*words)
        assert done.returncode == 2
        assert "unknown service 'nothing'\n  known: some" in done.stderr
    undeploy(here, "some")
