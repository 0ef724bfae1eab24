"""Runs in containers of docker and apptainer, both stand-ins: the daemon of docker owns the container's processes."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from support.peers.docker_stand_in import DockerStandIn, remove
from support.running.local_scheduler import is_alive
from support.running.process_engine import Desk, desk, until
from weft.node.engine.container.record import read_record
from weft.node.engine.events import RunExited, RunStarted
from weft.node.engine.launch_spec import LaunchSpec

Scene = Callable[[Desk], Awaitable[None]]
LATE_S = 60.0
BOTH = ("docker", "apptainer")


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerStandIn]:
    folder = Path(tempfile.mkdtemp(prefix="weft-d-"))
    made = DockerStandIn(folder)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    yield made
    made.close()
    remove(folder)


def contained(tmp_path: Path, runtime: str, script: str, **more: object) -> LaunchSpec:
    given = {"image": "i", "chdir": str(tmp_path), "env": (("OWN", "a b"),), **more}
    return LaunchSpec("1", 1, ("/bin/sh", "-c", script), runtime=runtime, **given)  # type: ignore[arg-type]


def play(tmp_path: Path, scene: Scene) -> None:
    async def whole() -> None:
        async with desk(tmp_path) as made:
            await scene(made)

    asyncio.run(whole())


@pytest.mark.parametrize("runtime", BOTH)
def test_output_exit_code_variables_and_stops(docker: DockerStandIn, tmp_path: Path, runtime: str) -> None:
    async def scene(found: Desk) -> None:
        script = "echo $OWN $WEFT_JOB_ID; pwd; trap 'echo got it; exit 7' TERM; echo up; while :; do sleep 0.05; done"
        found.engine.start(contained(tmp_path, runtime, script))
        await found.says("up")
        await until(lambda: (known := read_record(str(found.path(".")))) is not None and known.pid > 0, LATE_S)
        known = read_record(str(found.path(".")))
        assert known is not None
        assert known.pid in found.engine.pids()["1", 1], "the GPU poller would call its processes foreign"
        found.engine.stop("1", 1, "preempted")
        ended = await found.exited()
        assert (ended.code, ended.why) == (7, "preempted"), found.log()
        assert found.log().splitlines() == ["a b 1", str(tmp_path), "up", "got it"]
        assert not docker.containers

    play(tmp_path, scene)


@pytest.mark.parametrize("runtime", BOTH)
def test_a_missing_image_is_named(docker: DockerStandIn, tmp_path: Path, runtime: str) -> None:
    async def scene(found: Desk) -> None:
        ended = await found.run(contained(tmp_path, runtime, "true", image="none:1"))
        assert (ended.why, "none:1" in ended.detail) == ("bad-image", True), found.log()

    play(tmp_path, scene)
    assert not docker.containers


@pytest.mark.parametrize("victim", ["shim", pytest.param("client", marks=pytest.mark.soak)])
def test_no_container_of_a_daemon_is_left(docker: DockerStandIn, tmp_path: Path, victim: str) -> None:
    async def scene(found: Desk) -> None:
        found.engine.start(contained(tmp_path, "docker", "echo up; sleep 600"))
        await until(lambda: (known := read_record(str(found.path(".")))) is not None and known.pid > 0, LATE_S)
        (container,) = docker.containers.values()
        (started, *_) = found.seen(RunStarted)
        (client,) = Path(f"/proc/{started.leader.pid}/task/{started.leader.pid}/children").read_text().split()
        os.kill(started.shim.pid if victim == "shim" else int(client), signal.SIGKILL)
        await until(lambda: bool(found.seen(RunExited)), LATE_S)
        assert found.seen(RunExited)[0].why == "lost"
        assert not is_alive(container.pid)
        assert not docker.containers

    play(tmp_path, scene)
