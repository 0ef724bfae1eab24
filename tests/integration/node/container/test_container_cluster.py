"""Containers of a real podman on a cluster, and replicas of a service in them."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

import support.programs.served_program
from support.peers.podman_store import IMAGE, PodmanStore, podman
from support.running.live_cluster import cluster
from support.running.local_scheduler import is_alive, site, until
from support.service_requests import get
from weft.node.engine.container.record import read_record

__all__ = ["podman"]
pytestmark = pytest.mark.soak
PROGRAM = Path(support.programs.served_program.__file__)


def test_a_job_on_a_worker_outlives_it_and_its_container_ends_with_the_job(podman: PodmanStore) -> None:
    with cluster("n1", env=podman.env) as here:
        flags = ("--image", IMAGE, "--gpus", "1", "--mount", f"{here.root}:/root-of-test:ro")
        job = here.submit(
            "/bin/sh", "-c", "test -d /root-of-test && echo up $CUDA_VISIBLE_DEVICES; sleep 600", flags=flags
        )
        here.says("n1", job, "up 0")
        folder = here.run_folder("n1", job)
        known = until(lambda: (found := read_record(str(folder))) and found.pid and found)
        done = here.call("exec", job, "--", "/bin/sh", "-c", "cat /marker; echo $WEFT_JOB_ID")
        assert done.stdout.split() == ["weft", job], done.stderr
        here.kill9("n1")
        here.work("n1")
        until(lambda: "n1" in here.connected())
        assert is_alive(known.pid)
        assert here.job(job)["run"] == 1
        here.weft("cancel", job)
        here.until_status(job, "cancelled")
        assert not is_alive(known.pid)
        assert podman.containers() == []


def test_a_service_in_containers_answers_and_replaces_a_replica_that_is_killed(podman: PodmanStore) -> None:
    paths = sorted({sys.base_prefix, sys.prefix, str(PROGRAM.parents[1]), str(PROGRAM.parents[2] / "src")})
    with site({"gpus": "0", "min_run_s": 0}, **podman.env) as here:
        mounts = ", ".join(f"{path}:{path}:ro" for path in paths)
        (here.root / "chat.yaml").write_text(
            f"service: chat\nrun: exec {sys.executable} {PROGRAM}\ngpus: 0\nimage: {IMAGE}\nmounts: [{mounts}]\n"
            "env: {NAME: boxed}\nhealth: {every: 200ms, start_within: 60s}\ntimeouts: {drain: 2s}\n"
        )
        url = here.weft("deploy", "chat.yaml", "--wait", check=True).stdout.strip()
        assert get(f"{url}/x") == "chat.0 boxed"
        (first,) = podman.containers("label=weft.run=1")
        pid = int(podman.podman("container", "inspect", first, "--format", "{{.State.Pid}}"))
        os.kill(pid, signal.SIGKILL)
        assert get(f"{url}/x") == "chat.0 boxed", "the request waits for the next replica"
        here.weft("undeploy", "chat", check=True)
        until(lambda: podman.containers() == [])
