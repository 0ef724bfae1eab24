"""Containers that cannot run: what `weft doctor` says of podman and docker, and its exit code."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from support.peers.podman_store import PodmanStore, podman
from support.weft_cli import Weft
from weft.node.care.checks import check_containers
from weft.node.engine.container import detection

__all__ = ["podman"]
INFO = '{"host": {"security": {"rootless": false}}, "version": {"Version": "4.3.1"}}'
RUNC = (
    "Error: runc: runc create failed: unable to start container process: error during container init: "
    "error setting rlimit type 7: operation not permitted: OCI permission denied"
)
"""The words of podman where runc may not raise limits."""
PROGRAM = """#!/bin/sh
case $1 in info) echo '{info}';; *) {run};; esac
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is first in PATH, without the container runtimes of this machine behind it."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("sh", "sleep", "echo", "true"):
        (folder / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def write(folder: Path, name: str, run: str, info: str = INFO) -> None:
    (folder / name).write_text(PROGRAM.format(info=info, run=run))
    (folder / name).chmod(0o755)


def containers(weft: Weft, code: int) -> tuple[dict[str, Any], list[str]]:
    """Return the check of containers and the problems that `weft doctor` finds."""
    found = json.loads(weft("doctor", "--json", code=code).out)
    return next(step for step in found["checks"] if step["name"] == "containers"), found["problems"]


def test_a_podman_that_starts_nothing_is_a_problem_in_the_words_of_runc(weft: Weft, programs: Path) -> None:
    write(programs, "podman", f"echo '{RUNC}' >&2; exit 126")
    step, problems = containers(weft, code=1)
    assert (step["state"], problems) == ("failed", [f"{step['detail']}: {step['advice']}"])
    assert "error setting rlimit type 7: operation not permitted" in step["detail"]
    write(programs, "podman", "exit 127")
    assert containers(weft, code=0)[0]["state"] in ("ok", "warning")


def test_a_docker_without_its_daemon_is_a_problem_once_a_job_has_an_image(weft: Weft, programs: Path) -> None:
    write(programs, "docker", "exit 1", info="")
    step, _ = containers(weft, code=0)
    assert step["state"] == "skipped"
    weft("up")
    job = weft.submit("--hold", "--image", "i", "--", "true")
    step, problems = containers(weft, code=1)
    assert (step["state"], len(problems)) == ("failed", 1)
    weft("cancel", job)
    assert containers(weft, code=0)[0]["state"] == "skipped"
    failed = weft.submit("--image", "i", "--", "true")
    weft("wait", failed, code=None)
    assert any(f"weft show {failed} has the reason" in problem for problem in containers(weft, code=1)[1])


def test_a_podman_that_hangs_is_ended(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "ASK_TIMEOUT_S", 1.0)
    write(programs, "podman", f"echo $$ > {programs}/pid; sleep 600")
    began = time.monotonic()
    step = check_containers()
    assert time.monotonic() - began < 10
    assert (step.state, "starts no container within 1 s" in step.detail) == ("failed", True)
    assert not os.path.exists(f"/proc/{(programs / 'pid').read_text().strip()}")


def test_the_podman_of_this_machine_starts_an_empty_container(
    podman: PodmanStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in podman.env.items():
        monkeypatch.setenv(name, value)
    assert check_containers().state in ("ok", "warning")
    assert podman.containers() == []
