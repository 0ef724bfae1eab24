"""A take-over with all that a leader starts: the router of services, the web page, and pools of nodes."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import support.programs.served_program
from support.peers.message_receivers import Webhook, webhook
from support.peers.postgres import Postgres
from support.peers.slurm_cluster import GPUS, slurm
from support.running.local_scheduler import until
from support.running.secured_cluster import free_port
from support.running.server_pair import PATIENCE_S, Pair, pair
from support.running.web_page import Page
from support.service_requests import Requests, get
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.credentials import is_listening
from weft.model import AllocationEnded, AllocationGranted, AllocationRequested

LEASE_S = 2.0
FILE = f"""service: chat
run: exec {sys.executable} {support.programs.served_program.__file__}
memory: 1G
replicas: {{min: 1, max: 4}}
concurrency: 4
health: {{every: 200ms, start_within: 30s}}
"""
SLOW_SBATCH = """\
#!/bin/sh
id=$({sbatch} "$@") || exit
case "$*" in *--test-only*) exit 0;; esac
if [ -e {root}/hold ]; then
  mv {root}/hold {root}/held
  sleep 60
fi
echo "$id"
"""
"""It answers long after Slurm has the request, so that the leader dies between the two."""


def take_over(made: Pair) -> str:
    """Kill the leader, and return the server that leads then. The other one is a standby again."""
    leader = made.leader()
    made.kill(leader)
    until(lambda: made.leader() not in (leader, ""), PATIENCE_S)
    made.serve(leader)
    made.await_standby()
    return made.leader()


def ready(made: Pair) -> int:
    (found,) = made.json("services")["services"]
    return int(found["ready"])


def router_ports(made: Pair) -> dict[str, int]:
    """Return the ports of the routers that the servers started."""
    found = {}
    for name in made.ports:
        record = made.folder(name) / "router.json"
        if record.exists():
            found[name] = int(json.loads(record.read_bytes())["port"])
    return found


@pytest.mark.soak
def test_services_and_the_web_page_continue_after_a_take_over(database: Postgres) -> None:
    page = Page(free_port())
    with pair(database, lease_s=LEASE_S, options=("--web-port", str(page.port))) as made:
        made.await_standby()
        made.work("w1")
        (made.root / "chat.yaml").write_text(FILE)
        made.run("deploy", str(made.root / "chat.yaml"))
        until(lambda: ready(made) == 1, PATIENCE_S)
        url = f"http://127.0.0.1:{router_ports(made)['a']}/chat/x"
        assert get(url) == "chat.0 "
        with Requests(url) as requests:
            assert take_over(made) == "b"
            made.run("scale", "chat", "2")
            until(lambda: ready(made) == 2, PATIENCE_S)
            until(lambda: "chat.1 " in requests.answers, PATIENCE_S)  # the first router follows the new leader
            assert not requests.failures
        until(lambda: "b" in router_ports(made), PATIENCE_S)
        second = f"http://127.0.0.1:{router_ports(made)['b']}/chat/x"
        until(lambda: is_listening(Address("127.0.0.1", router_ports(made)["b"])))
        assert get(second).startswith("chat."), "the new leader starts a router on its machine"
        check_scale_in(made, f"{url}?sleep=6")
        check_page(made, page)
        assert take_over(made) == "a"
        assert get(url).startswith("chat.")
        made.run("undeploy", "chat")
        until(lambda: not made.json("services")["services"], PATIENCE_S)
        for name in made.ports:  # a router ends with a server that has no services
            made.stop(name)


def check_scale_in(made: Pair, url: str) -> None:
    """Scale in while both replicas answer long requests of one router, and the other router has none."""
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(get(url))) for _ in range(6)]
    for thread in threads:
        thread.start()
    until(lambda: made.json("services")["services"][0]["in_flight"] == 6)
    made.run("scale", "chat", "1")
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(found) == 6
    assert len(set(found)) == 2, "each replica has answered"
    until(lambda: len(made.json("services")["services"][0]["replicas"]) == 1, PATIENCE_S)


def check_page(made: Pair, page: Page) -> None:
    """Log in at the new leader with a token that the old one knew, and join with one that was made just now."""
    until(lambda: is_listening(Address("127.0.0.1", page.port)), PATIENCE_S)
    until(lambda: page.send("GET", "/healthz").status == 200, PATIENCE_S)
    assert page.log_in_with((made.folder("a") / "token").read_text().strip()).status == 200
    until(lambda: page.get("/api/v1/jobs").status == 200, PATIENCE_S)
    (token,) = made.run("auth", "token", "--role", "user", "--user", "ada").split()
    done = made.weft("auth", "join", str(made.where), token, WEFT_CREDENTIALS=str(made.root / "ada"))
    assert done.returncode == 0, done.stderr


@pytest.mark.soak
def test_a_pool_continues_after_take_overs(database: Postgres, tmp_path: Path) -> None:
    (tmp_path / "sbatch").write_text(SLOW_SBATCH.format(sbatch=shutil.which("sbatch"), root=tmp_path))
    (tmp_path / "sbatch").chmod(0o755)
    with slurm() as below:
        env = {"SLURM_CONF": below.env["SLURM_CONF"], "PATH": f"{tmp_path}:{below.env['PATH']}"}
        with pair(database, lease_s=LEASE_S, env=env) as made:
            made.await_standby()
            shape = ("--gpus-per-node", str(GPUS), "--model", "V100", "--time", "30m", "--max-nodes", "2")
            words = ("pool", "add", "v100", "--slurm", *shape, "--idle", "2s")
            assert "--folder is missing" in made.weft(*words, "--scheduler", str(made.where)).stderr
            made.run(*words, "--folder", str(made.root / "pool"), "--", "-p", "gpu")
            (tmp_path / "hold").touch()
            made.run("submit", "--", "sh", "-c", f"until test -e {tmp_path}/go; do sleep 0.2; done")
            until((tmp_path / "held").exists, PATIENCE_S)
            assert take_over(made) == "b"  # between the request and its answer
            until(lambda: job(made, "1")["status"] == "running", PATIENCE_S)
            (asked,) = [fact for fact in made.facts() if isinstance(fact, AllocationRequested)]
            (granted,) = until(lambda: [fact for fact in made.facts() if isinstance(fact, AllocationGranted)])
            assert (granted.key, [granted.id]) == (asked.key, below.jobs()), "it is asked for once"
            assert take_over(made) == "a"  # with the node in use
            (tmp_path / "go").touch()
            until(lambda: job(made, "1")["status"] == "done", PATIENCE_S)
            assert job(made, "1")["run"] == 1
            until(lambda: not below.jobs(), PATIENCE_S)  # the second leader gives it back
            (ended,) = until(lambda: [fact for fact in made.facts() if isinstance(fact, AllocationEnded)])
            assert not ended.failed
            assert len([fact for fact in made.facts() if isinstance(fact, AllocationRequested)]) == 1


@pytest.mark.soak
def test_messages_arrive_although_the_leader_is_killed_and_not_again_later(database: Postgres) -> None:
    with webhook() as hook, pair(database, lease_s=LEASE_S) as made:
        config = made.root / ".config" / "weft" / "notify.yaml"
        config.parent.mkdir(parents=True)
        config.write_text(f"default: [team]\ntargets:\n  team: {{webhook: '{hook.url}'}}\n")
        config.chmod(0o600)
        made.await_standby()
        made.work("w1")
        hook.answers.append((503, {}))  # the message waits on the disk of the leader
        send(made, "first")
        until(lambda: any((made.folder("a") / "notify").glob("[0-9]*.json")), PATIENCE_S)
        made.kill("a")  # most likely before the message is in the database
        until(lambda: "first" in names(hook), PATIENCE_S)
        made.serve("a")
        made.await_standby()
        assert take_over(made) == "a"
        count = len(hook.messages)
        send(made, "second")
        until(lambda: "second" in names(hook), PATIENCE_S)  # after all that waited for this target
        assert names(hook)[count:] == ["second"]


def send(made: Pair, name: str) -> None:
    """Run a job that leads to a message."""
    made.run("submit", "--name", name, "--notify", "done", "--gpus", "0", "--chdir", str(made.root), "--", "true")


def names(hook: Webhook) -> list[str]:
    return [each["job"]["name"] for each in hook.messages]


def job(made: Pair, id: str) -> dict[str, Any]:
    (found,) = made.json("show", id)["jobs"]
    return dict(found)
