"""The commands of the make targets for a cluster, word for word."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def recipe(*words: str) -> list[str]:
    """The commands that make would run, without what finds `weft`."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    command = ["make", "--no-print-directory", "-n", "-o", ".venv/.ready", "-o", ".venv/.workloads-ready", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [re.sub(r'PATH="\S+" ', "", line) for line in done.stdout.replace("\\\n\t", "").splitlines()]


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("server", "weft server"),
        ("worker", "weft worker --id worker-1 --gpus 0,1 --models RTX3090,RTX3090 --memories 24576,24576"),
        ("submit", "weft submit --config examples/sample_task.json"),
        ("monitor", "weft monitor"),
    ],
)
def test_a_cluster_in_four_terminals(target: str, command: str) -> None:
    assert recipe(target) == [command]


def test_proto_and_rpc_make_the_stubs() -> None:
    assert recipe("proto") == recipe("rpc")
    assert "grpc_tools.protoc" in recipe("proto")[0]


def test_a_testbed_here_or_on_workers_that_join() -> None:
    here = "\n".join(recipe("testbed"))
    assert '--quick --spec "n8g8"  --policies "srtf,srsf,tiresias,themis,muri-s,muri-l"' in here
    assert 'where="--at-once 3"' in here
    there = "\n".join(recipe("testbed", "IP=10.0.0.1", "SCHEDULERS=srsf", "SETUPS=3x8", "TRACES=t.csv"))
    assert 'weft auth init --host "10.0.0.1"' in there
    assert '--spec "3x8" --trace "t.csv" --policies "srsf"' in there
    work = recipe("run1", "IP=10.0.0.1", "WORKER_PORT=9001", "TRAINER_PORT=9013")
    assert '--addr "$at:9013"' in work[-1], "the trainer port is the first port at which the processes of a gang meet"


def test_a_master_and_workers_on_machines_of_their_own() -> None:
    master = recipe("master", "IP=10.0.0.1", "SCHEDULER=srsf")
    assert 'weft auth init --host "10.0.0.1"' in master[0]
    assert master[1] == 'weft server --host "10.0.0.1" --policy "srsf"'
    for number in "123":
        join, work = recipe(f"run{number}", "IP=10.0.0.1", "WORKER_PORT=9001", "TOKEN=t")
        assert join.endswith(f'weft auth join "10.0.0.1:50051" "t" --node {number}')
        assert f'weft worker --scheduler "10.0.0.1:50051" --id {number} --addr "$at:9001"' in work
