"""The rights of a worker's token: one node, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.running.local_scheduler import PATIENCE_S, until
from support.running.secured_cluster import Gate, gate


@pytest.fixture(scope="module")
def door() -> Iterator[Gate]:
    with gate() as made:
        yield made


def joined(gate: Gate, node: str) -> dict[str, str]:
    """The environment of another user, who has joined as the worker of this node."""
    env = gate.visitor(node)
    said = gate.weft("auth", "join", str(gate.where), gate.invited("worker"), "--node", node, env=env)
    assert said.stdout == f"joined {gate.where} as worker\n", said.stderr
    return env


def command(gate: Gate, node: str) -> list[str]:
    gpus = ("--gpus", "0", "--models", "RTX3090", "--memories", "24576")
    return [sys.executable, "-m", "weft", "worker", "--scheduler", str(gate.where), "--id", node, *gpus]


@contextmanager
def working(gate: Gate, node: str, env: dict[str, str], *words: str) -> Iterator[subprocess.Popen[bytes]]:
    before = connected(gate)
    process = subprocess.Popen([*command(gate, node), *words], env=env, cwd=gate.root)
    try:
        until(lambda: connected(gate) > before)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    until(lambda: connected(gate) == before)


def connected(gate: Gate) -> int:
    """Return the number of connected workers."""
    found = json.loads(gate.weft("doctor", "--json", "--scheduler", str(gate.where)).stdout)
    return int(found["nodes"]["connected"])


def test_it_may_be_its_own_node_and_no_other(door: Gate) -> None:
    env = joined(door, "n7")
    done = subprocess.run(
        command(door, "n8"), env=env, cwd=door.root, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode != 0
    assert "this token is for the node 'n7'" in done.stderr
    with working(door, "n7", env):
        found = json.loads(door.weft("nodes", "--json", "--scheduler", str(door.where)).stdout)["nodes"]
    assert [node["node"] for node in found] == ["n7"]


def test_it_opens_nothing_for_commands(door: Gate) -> None:
    env = joined(door, "n6")
    said = door.weft("queue", "--scheduler", str(door.where), env=env)
    assert said.returncode == 5  # a worker's token is not taken for a user's
    assert "weft auth join" in said.stderr
    folder = Path(env["HOME"], ".config", "weft", "credentials", f"localhost_{door.where.port}")
    (folder / "worker-token").rename(folder / "token")
    said = door.weft("queue", "--scheduler", str(door.where), env=env)
    assert said.returncode == 5
    assert "role worker" in said.stderr


def test_jobs_go_to_the_node_and_the_labels_they_ask_for(door: Gate) -> None:
    at = ("--scheduler", str(door.where))
    with working(door, "n5", joined(door, "n5"), "--labels", "rack=3"), working(door, "n4", joined(door, "n4")):
        for flags, node in ((("--node", "n4"), "n4"), (("--label", "rack=3"), "n5"), (("--node", "n5"), "n5")):
            job = door.weft("submit", "-q", *at, *flags, "--", "sh", "-c", "echo $WEFT_NODELIST").stdout.strip()
            assert door.weft("wait", "-q", job, *at).returncode == 0
            assert door.weft("logs", job, *at).stdout == f"{node}\n"
        job = door.weft("submit", "-q", *at, "--label", "rack=9", "--", "true").stdout.strip()
        found = json.loads(door.weft("show", "--json", job, *at).stdout)["jobs"][0]
        assert found["status"] == "waiting"
        assert door.weft("cancel", "-y", job, *at).returncode == 0


def test_revoked_it_is_shown_out_and_stays_out(door: Gate) -> None:
    with working(door, "n3", joined(door, "n3")) as process:
        port = ("--port", str(door.where.port))
        tokens = json.loads(door.weft("auth", "list", "--json", *port).stdout)["tokens"]
        (key,) = [each["id"] for each in tokens if each["node"] == "n3"]
        assert door.weft("auth", "revoke", key, *port).returncode == 0
        until(lambda: connected(door) == 0)
        assert process.wait(PATIENCE_S) == 5  # it has no runs to look after


def test_a_users_token_is_refused_in_words_that_name_the_right_role(door: Gate) -> None:
    env = door.visitor("ada")
    assert door.weft("auth", "join", str(door.where), door.invited("user"), env=env).returncode == 0
    folder = Path(env["HOME"], ".config", "weft", "credentials", f"localhost_{door.where.port}")
    (folder / "token").rename(folder / "worker-token")
    done = subprocess.run(
        command(door, "n9"), env=env, cwd=door.root, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 5
    assert "a token of role user may not call" in done.stderr
    assert "weft auth token --role worker" in done.stderr
    assert "{" not in done.stderr
    assert "--role admin" not in done.stderr


def test_only_an_admin_learns_where_the_scheduler_keeps_its_files(door: Gate) -> None:
    env = door.visitor("bob")
    assert door.weft("auth", "join", str(door.where), door.invited("user", "bob"), env=env).returncode == 0
    words = ("doctor", "--json", "--scheduler", str(door.where))
    theirs = json.loads(door.weft(*words, env=env).stdout)
    assert (theirs["state_dir"], theirs["runtime_dir"]) == ("", "")
    assert str(door.folder) not in json.dumps(theirs)
    assert json.loads(door.weft(*words).stdout)["state_dir"].endswith(str(door.where.port))


def test_why_a_run_did_not_start_is_shown_in_words() -> None:
    with gate(worker=True) as here:
        at = ("--scheduler", str(here.where))
        job = here.weft("submit", "--quiet", *at, "--chdir", "/no/such/folder", "--", "true").stdout.strip()
        assert here.weft("wait", job, *at).returncode != 0
        (found,) = json.loads(here.weft("show", job, "--json", *at).stdout)["jobs"]
        assert (found["state"], found["why"]) == ("F", "bad-directory")
        assert "/no/such/folder" in found["detail"]
        assert f"bad-directory: {found['detail']}"[:40] in here.weft("show", job, *at).stdout
        assert found["detail"] in here.weft("logs", job, *at).stderr
