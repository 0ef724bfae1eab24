"""`weft cluster ssh`: workers over a real sshd on loopback, each with a separate token; `down` ends them."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.peers.sshd import Sshd, sshd
from support.running.local_scheduler import until
from support.running.secured_cluster import free_port
from support.running.shell_user import Person, person_at

SOURCE = Path(__file__).resolve().parents[4] / "src"


@pytest.fixture
def person() -> Iterator[Person]:
    with person_at() as made:
        yield made


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Sshd]:
    with sshd(tmp_path / "sshd") as made:
        yield made


def far_weft(home: Path) -> Path:
    """The command of a machine with a separate home, as installed there."""
    home.mkdir()
    folders = {"XDG_STATE_HOME": f"{home}/s", "XDG_RUNTIME_DIR": f"{home}/r", "XDG_CONFIG_HOME": f"{home}/c"}
    env = " ".join(f"{key}={shlex.quote(value)}" for key, value in {**folders, "HOME": str(home)}.items())
    made = home / "weft"
    words = f"env {env} PYTHONPATH={shlex.quote(str(SOURCE))} {shlex.quote(sys.executable)} -m weft"
    made.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    made.chmod(0o755)
    return made


def test_workers_join_over_ssh_run_a_gang_and_are_ended(person: Person, door: Sshd, tmp_path: Path) -> None:
    port = str(free_port())
    person.weft("cluster", "up", "--nodes", "1", "--gpus-per-node", "2", "--port", port)
    flag = ("--scheduler", f"localhost:{port}")
    far, further = tmp_path / "far", tmp_path / "further"
    hosts = tmp_path / "hosts"
    hosts.write_text(
        "# machines\n\n"
        + door.host(id="far", weft=str(far_weft(far)), gpus="0,1", models="'RTX 3090,RTX 3090'", labels="rack=3") + "\n"
        + door.host(id="further", weft=str(far_weft(further)), gpus="4", memories="24576", user=door.user) + "\n"
        + door.host(id="nobody", weft="no-such-weft", gpus="0") + "\n"
    )  # fmt: skip
    done = person.weft(
        "cluster", "ssh", "--hosts", str(hosts), "--ssh-config", str(door.config), *flag, "--json", code=1
    )
    found = {each["worker"]: (each["joined"], each["words"]) for each in json.loads(done.stdout)["hosts"]}
    assert found["far"] == found["further"] == (True, "")
    assert found["nobody"][0] is False
    assert "weft=PATH" in found["nobody"][1]
    nodes = {node["node"]: node for node in person.json("nodes", *flag)["nodes"]}
    assert {name: node["state"] for name, node in nodes.items()} == dict.fromkeys(("n0", "far", "further"), "connected")
    assert nodes["far"]["labels"]["rack"] == "3"
    gpus = [(gpu["node"], gpu["gpu"], gpu["model"], gpu["memory_mb"]) for gpu in person.json("gpus", *flag)["gpus"]]
    assert {("far", 0, "RTX 3090", 32768), ("far", 1, "RTX 3090", 32768), ("further", 4, "", 24576)} < set(gpus)
    for home in (far, further):  # a token of its own, as a worker and nothing else
        (kept,) = (home / "c" / "weft" / "credentials").iterdir()
        assert [each.name for each in kept.iterdir()] == ["worker-token"]
    ran = person.weft("run", *flag, "--gpus", "5", "-q", "--", "sh", "-c", "echo $WEFT_NUM_NODES")
    assert ran.stdout == "3\n"
    person.weft("submit", *flag, "--gpus", "5", "--", "sleep", "1000")
    until(lambda: person.json("show", *flag, "2")["jobs"][0]["status"] == "running")
    down = person.json("cluster", "down", "--port", port)
    assert (sorted(down["ended"]), down["jobs"]) == (["far", "further", "n0", "server"], 1)
    for home in (far, further):
        until(lambda home=home: not person.left(f"{home}/s"))  # type: ignore[misc]
    until(lambda: not person.left())


def test_a_worker_that_was_started_anew_is_not_ours_and_stays(person: Person, door: Sshd, tmp_path: Path) -> None:
    port, far = str(free_port()), tmp_path / "far"
    weft = far_weft(far)
    person.weft("cluster", "up", "--nodes", "1", "--gpus-per-node", "1", "--port", port)
    hosts = tmp_path / "hosts"
    hosts.write_text(door.host(id="far", weft=str(weft), gpus="0"))
    ssh = (
        "cluster",
        "ssh",
        "--hosts",
        str(hosts),
        "--ssh-config",
        str(door.config),
        "--scheduler",
        f"localhost:{port}",
    )
    shown = person.weft(*ssh).stdout
    assert shown.splitlines()[1].split() == ["127.0.0.1", "far", "joined"]
    again = person.weft(*ssh, code=1).stdout
    assert "is already running here" in again
    person.run(str(weft), "worker", "--id", "far", "--stop")
    started = person.run(str(weft), "worker", "--id", "far", "--gpus", "0", "--background", "--json", *ssh[-2:])
    mine = json.loads(started)["process"]
    assert person.json("cluster", "down", "--port", port)["ended"] == ["server", "n0"]
    assert json.loads(person.run(str(weft), "worker", "--id", "far", "--stop", mine, "--json"))["ended"] is True


def test_whoever_is_not_let_in_is_told_and_no_shell_sees_what_is_in_the_file(
    person: Person, door: Sshd, tmp_path: Path
) -> None:
    port = str(free_port())
    person.weft("cluster", "up", "--nodes", "1", "--gpus-per-node", "1", "--port", port)
    flag = ("--scheduler", f"localhost:{port}", "--json")
    hosts, trap = tmp_path / "hosts", tmp_path / "trap"
    far = far_weft(tmp_path / "far")
    hosts.write_text(door.host(id="far", weft=str(far), gpus="0", labels=f"'a=$(touch {trap});`touch {trap}`'"))
    ssh = ("cluster", "ssh", "--hosts", str(hosts), "--ssh-config", str(door.config), *flag)
    assert json.loads(person.weft(*ssh).stdout)["hosts"][0]["joined"] is True
    assert not trap.exists()
    nodes = {node["node"]: node for node in person.json("nodes", *flag[:2])["nodes"]}
    assert nodes["far"]["labels"]["a"] == f"$(touch {trap});`touch {trap}`"
    config = door.config.read_text().replace("user_key", "other_key")
    (tmp_path / "wrong").write_text(config)
    hosts.write_text(door.host(id="further", weft=str(far), gpus="0"))
    wrong = ("cluster", "ssh", "--hosts", str(hosts), "--ssh-config", str(tmp_path / "wrong"), *flag)
    (refused,) = json.loads(person.weft(*wrong, code=1).stdout)["hosts"]
    assert "Permission denied" in refused["words"]
    assert "far" in person.json("cluster", "down", "--port", port)["ended"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("-oProxyCommand=touch", "cannot be a host"),
        ("a@-b", "cannot be a host"),
        ("gpu7 gpu=0", "unknown key 'gpu'"),
        ("gpu7 gpus=0 gpus=1", "given twice"),
        ("gpu7 port=70000", "port=70000"),
        ("gpu7 id=../x", "cannot be an id"),
        ("gpu7 'gpus=0", "closing quotation"),
        ("gpu7 weft=-x", "weft=-x"),
        ("127.0.0.1 gpus=0\n127.0.0.1 gpus=1", "two workers called"),
        ("# nobody", "no machines"),
        ("gpu7 gpus=0", "cannot reach a scheduler at"),
    ],
)
def test_what_makes_no_sense_in_a_hosts_file_is_named_with_its_line(
    person: Person, tmp_path: Path, line: str, says: str
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text(f"{line}\n")
    said = person.weft("cluster", "ssh", "--hosts", str(hosts), "--scheduler", "localhost:1", code=2).stderr
    assert says in said
    assert f"{hosts}" in said or "cannot reach" in said


def test_nodes_are_checked_and_prepared_over_ssh(person: Person, door: Sshd, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    weft = str(far_weft(tmp_path / "far"))
    hosts.write_text(f"{door.host(id='far', weft=weft)}\n{door.host(id='nobody', weft='no-such-weft')}\n")
    over_ssh = ("--hosts", str(hosts), "--ssh-config", str(door.config))
    done = person.weft("node", "prepare", "--mps", "--dry-run", *over_ssh, "--json", code=1)
    far, missing = json.loads(done.stdout)["hosts"]
    assert (far["node"], [step["name"] for step in far["steps"]]) == ("far", ["driver"])
    assert "nothing to prepare" in far["steps"][0]["detail"]
    assert (missing["steps"][0]["name"], missing["steps"][0]["state"]) == ("ssh", "failed")
    hosts.write_text(door.host(id="far", weft=weft))
    rows = [line.split() for line in person.weft("node", "check", *over_ssh, code=None).stdout.splitlines()[1:]]
    assert {row[0] for row in rows} == {"127.0.0.1"}
    assert {row[1] for row in rows} >= {"driver", "disk", "clock"}
