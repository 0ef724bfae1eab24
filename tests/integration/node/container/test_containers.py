"""Runs in containers of a real podman: output, exit codes, files, variables, limits, signals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from support.peers.podman_store import IMAGE, PodmanStore, podman
from support.running.process_engine import Desk, desk, stopped, until
from weft.node.engine.container.record import ContainerRecord, read_record
from weft.node.engine.exit_rules import exit_event
from weft.node.engine.launch_spec import LaunchSpec

__all__ = ["podman"]
Scene = Callable[[Desk], Awaitable[None]]
LATE_S = 60.0


def contained(script: str, *, job: str = "1", run: int = 1, **more: object) -> LaunchSpec:
    return LaunchSpec(job, run, ("/bin/sh", "-c", script), image=IMAGE, **more)  # type: ignore[arg-type]


def record_of(found: Desk) -> ContainerRecord:
    known = read_record(str(found.path(".")))
    assert known is not None
    return known


@pytest.fixture
def play(podman: PodmanStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Scene], None]:
    for name, value in podman.env.items():
        monkeypatch.setenv(name, value)

    def run(scene: Scene) -> None:
        async def whole() -> None:
            async with desk(tmp_path) as made:
                await scene(made)

        asyncio.run(whole())
        assert podman.containers() == []

    return run


def test_output_exit_code_files_and_variables_are_those_of_a_plain_run(
    play: Callable[[Scene], None], tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "data").write_text("some data")
    script = (
        "echo out; echo err >&2; cat /marker; pwd; echo $WEFT_JOB_ID-$WEFT_RUN-$OWN-$SPACED; cat /d; "
        "echo x > made; echo y > $WEFT_CKPT_DIR/model; touch $WEFT_DONE_FILE; echo z > /d || echo read-only; exit 7"
    )

    async def scene(found: Desk) -> None:
        env = (("OWN", "mine"), ("SPACED", "a b\nc"))
        mounts = ("../data:/d:ro",)
        result = await found.run(contained(script, chdir=str(work), env=env, mounts=mounts))
        lines = found.log().splitlines()
        assert lines[:4] == ["out", "err", "weft", str(work)]
        assert "1-1-mine-a b c" in lines
        assert "some data" in found.log()
        assert lines[-1] == "read-only"
        assert (result.code, result.why, result.done, result.leftovers) == (7, "", True, 0)
        assert (work / "made").read_text() == "x\n"
        assert (found.jobs / "1" / "checkpoints" / "model").read_text() == "y\n"

    play(scene)


def test_a_run_that_uses_more_memory_than_its_limit_is_out_of_memory(play: Callable[[Scene], None]) -> None:
    async def scene(found: Desk) -> None:
        greedy = "exec /usr/bin/python3 -c 'kept = bytearray(400 << 20); import time; time.sleep(60)'"
        result = await found.run(contained(greedy, ram_mb=50))
        assert result.why == "ram", result
        assert "more than its 50 MB" in result.detail
        assert exit_event(result).how == "failed"

    play(scene)


def test_stops_reach_every_process_once_and_leave_the_grace(play: Callable[[Scene], None]) -> None:
    script = (
        "/bin/sh -c 'trap \"echo child got it\" TERM; echo child up; while :; do sleep 0.05; done' & "
        "trap 'echo got it' TERM; echo up; while :; do sleep 0.05; done"
    )

    async def scene(found: Desk) -> None:
        found.engine.start(contained(script, grace_s=1.0))
        await found.says("child up")
        await until(lambda: record_of(found).pid > 0)
        found.engine.stop("1", 1, "cancelled")
        result = await found.exited()
        assert result.why == "cancelled"
        assert found.log().count("\ngot it") == 1
        assert found.log().count("child got it") == 1

    play(scene)


def test_a_preempted_run_saves_its_work_and_the_next_one_resumes(play: Callable[[Scene], None]) -> None:
    script = (
        "cat $WEFT_CKPT_DIR/saved 2>/dev/null && exit 0; "
        "trap 'test -e $WEFT_PREEMPT_FILE && echo saved > $WEFT_CKPT_DIR/saved; exit 85' TERM; "
        "echo up; while :; do sleep 0.05; done"
    )

    async def scene(found: Desk) -> None:
        found.engine.start(contained(script))
        await found.says("up")
        found.engine.stop("1", 1, "preempted")
        first = await found.exited()
        assert (first.why, first.code) == ("preempted", 85)
        second = await found.run(contained(script, run=2, restarts=1))
        assert (second.code, found.log(run=2)) == (0, "saved\n")

    play(scene)


@pytest.mark.soak
def test_a_time_limit_ends_a_container_that_ignores_sigterm(play: Callable[[Scene], None]) -> None:
    async def scene(found: Desk) -> None:
        result = await found.run(contained("trap '' TERM; sleep 600", time_limit_s=2.0, grace_s=0.5))
        assert result.why == "timeout"

    play(scene)


@pytest.mark.soak
def test_a_user_signal_arrives_before_the_time_limit(play: Callable[[Scene], None]) -> None:
    async def scene(found: Desk) -> None:
        script = "trap 'echo usr; exit 4' USR1; echo up; while :; do sleep 0.05; done"
        result = await found.run(contained(script, time_limit_s=600.0, signal="USR1@596"))
        assert (result.code, "usr" in found.log()) == (4, True)

    play(scene)


@pytest.mark.parametrize(
    ("more", "why", "detail"),
    [
        pytest.param({"image": "localhost/none:1"}, "bad-image", "localhost/none", marks=pytest.mark.soak),
        ({"mounts": ("/no/such/folder:/x",)}, "bad-mount", "/no/such/folder"),
        ({"runtime": "docker"}, "no-runtime", "docker does not work on this node"),
        ({"runtime": "apptainer"}, "no-runtime", "apptainer is not installed"),
    ],
)
def test_a_container_that_cannot_start_says_why(
    play: Callable[[Scene], None], more: dict[str, object], why: str, detail: str
) -> None:
    async def scene(found: Desk) -> None:
        spec = LaunchSpec("1", 1, ("true",), **{"image": IMAGE, **more})  # type: ignore[arg-type]
        result = await found.run(spec)
        assert (result.code, result.why) == (125, why), found.log()
        assert detail in result.detail
        assert detail in found.log()

    play(scene)


@pytest.mark.soak
def test_a_suspended_container_stands_still(play: Callable[[Scene], None]) -> None:
    async def scene(found: Desk) -> None:
        found.engine.start(contained("i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done"))
        await found.says("5\n")
        await until(lambda: record_of(found).pid > 0)
        found.engine.suspend("1", 1, suspended=True)
        await stopped(record_of(found).pid)
        size = len(found.log())
        found.engine.suspend("1", 1, suspended=False)
        await until(lambda: len(found.log()) > size)

    play(scene)
