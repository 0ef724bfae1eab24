"""Commands and the Python API of services, with real processes: serve, call, show, why, logs, weft.deploy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import support.programs.plain_program
import weft
from support.running.local_scheduler import Site, site, until
from weft.access.client.api import disconnect

PROGRAM = Path(support.programs.plain_program.__file__)
GPUS = {"gpus": "0,1", "models": "A100,A100", "memories": "40960,40960", "min_run_s": 0.0}


@pytest.fixture(scope="module")
def here() -> Iterator[Site]:
    with site(GPUS) as made:
        yield made


def test_serve_prints_the_url_and_ctrl_c_ends_the_service(here: Site) -> None:
    words = ["serve", "--name", "plain", "--share", ".3/.6", "--replicas", "2", "--", sys.executable, str(PROGRAM)]
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", *words], env=here.env, cwd=here.root, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip().endswith("/plain")
        until(lambda: json.loads(here.weft("show", "plain", "--json").stdout or "{}")["services"][0]["ready"] == 2)
        assert here.weft("call", "plain", "/x", check=True).stdout == "warmed up by 0"
        assert here.weft("call", "plain", "/health").returncode == 1
        assert "2 ready of 2 wanted" in here.weft("show", "plain", check=True).stdout
        assert "2 ready, 0 starting" in here.weft("why", "plain", check=True).stdout
        output = here.weft("logs", "plain", check=True).stdout
        assert output.count("listening") == 2
        assert "==> plain/1 <==" in output
        assert "listening" in here.weft("logs", "plain/0", check=True).stdout
        taken = here.weft("serve", "--name", "plain", "--", "true")
        assert taken.returncode == 6
        assert "there is a service plain already" in taken.stderr
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60.0)
    assert process.returncode == 130, errors
    assert not json.loads(here.weft("services", "--json").stdout)["services"]


def test_serve_ends_the_service_when_the_terminal_is_closed(here: Site) -> None:
    command = [sys.executable, "-m", "weft", "serve", "--name", "hung-up", "--gpus", "0", "--", "sleep", "600"]
    process = subprocess.Popen(
        command, env=here.env, cwd=here.root, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # it may be ignored here
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline(), "it is deployed"
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60.0)
    assert not json.loads(here.weft("services", "--json").stdout)["services"]


def test_serve_does_not_start_a_scheduler_that_was_stopped(here: Site) -> None:
    command = [sys.executable, "-m", "weft", "serve", "--name", "left", "--gpus", "0", "--", "sleep", "600"]
    with subprocess.Popen(
        command, env=here.env, cwd=here.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip().endswith("/left")
        here.weft("down", "--kill", check=True)
        assert process.wait(60.0) == 6
        assert process.stderr is not None
        assert "left was undeployed meanwhile" in process.stderr.read()
    assert (here.paths.answers(), here.paths.lock_text()) == (False, "")


def test_a_service_of_python_is_warmed_up_called_changed_and_removed(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "HOME"):
        monkeypatch.setenv(name, here.env[name])
    warm_up = {"path": "/predict", "body": '{"x": 1}', "requests": 3}
    service = weft.deploy(
        service="api", run=[sys.executable, str(PROGRAM)], gpus=1, health={"path": "/alive", "warm_up": warm_up},
        replicas={"min": 1, "max": 2}, env={"PYTHONPATH": os.pathsep.join(sys.path)}, scheduler="local", wait=True,
    )  # fmt: skip
    try:
        with service.call("/predict") as reply:
            assert (reply.status, reply.body) == (200, b"warmed up by 3")
        service.scale(2)
        service.wait(60.0)
        assert service.ready == 2
        assert service.show()["max_replicas"] == 2
    finally:
        service.undeploy()
        disconnect()
    until(lambda: not json.loads(here.weft("services", "--json").stdout)["services"])


def test_mistakes_are_named(here: Site) -> None:
    here.weft("up", check=True)
    for words, message in (
        (["serve", "--replicas", "x", "--", "a"], "'x' is no number of replicas"),
        (["serve", "--image", "i", "--mount", "a:b:c:d", "--", "a", "b"], "'a:b:c:d': too many colons"),
        (["serve", "--runtime", "podman", "--", "a", "b"], "the job runs in no container"),
        (["serve", "--health", "no path", "--", "a", "b"], "expected a path"),
        (["call", "nothing"], "unknown service 'nothing'"),
    ):
        done = here.weft(*words)
        assert done.returncode == 2
        assert message in done.stderr
    with pytest.raises(weft.WeftError, match="a file or keys are needed"):
        weft.deploy()
