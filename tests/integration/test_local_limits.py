"""What the machine lacks: disk, descriptors; and logs that never end."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.process_engine import desk, launch, shell, until
from weft.engines.process.events import RunExited


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        if os.environ.get("CI") == "true":
            pytest.fail("this needs root, to mount a small file system")
        pytest.skip("only root can mount a small file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> None:
    with open(place / "filler", "ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def test_a_disk_that_fills_up_does_not_lose_the_exit(small_disk: Path) -> None:
    async def scene() -> None:
        async with desk(small_disk) as found:
            found.engine.start(shell("sleep 0.5; echo lost words; exit 7"))
            await found.started()
            fill(small_disk)
            ended = await found.exited()
            assert ended.code == 7
            assert found.path("exit.json").read_text().startswith('{"is":"exited"')

    asyncio.run(scene())


def test_nothing_is_started_on_a_full_disk(small_disk: Path, tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(small_disk) as found:
            await found.run(launch("true"))
            fill(small_disk)
            ended = await found.run(shell(f"touch {tmp_path}/ran", job="2"))
            assert (ended.why, ended.started_at) == ("disk-full", 0.0)
            assert not (tmp_path / "ran").exists()
            (small_disk / "filler").unlink()
            assert (await found.run(launch("true", job="3"))).code == 0

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("why", "grace_s", "told"), [("preempted", None, "preempted"), ("cancelled", 0.0, "cancelled")]
)
def test_a_run_can_be_stopped_on_a_full_disk(small_disk: Path, why: str, grace_s: float | None, told: str) -> None:
    async def scene() -> None:
        async with desk(small_disk) as found:
            found.engine.start(shell("exec sleep 60"))
            await found.started()
            fill(small_disk)
            assert found.engine.stop("1", 1, why, grace_s)
            ended = await found.exited()
            assert (ended.why, ended.signal) == (told, 9 if grace_s == 0 else 15)
            assert not found.path("stop.json").exists()

    asyncio.run(scene())


def test_a_log_without_end_takes_twice_the_cap_at_most(tmp_path: Path) -> None:
    cap = 1 << 20

    async def scene() -> None:
        async with desk(tmp_path) as found:
            piece = "head -c 131072 /dev/zero | tr '\\0' x; sleep 0.1"
            script = f"i=0; while [ $i -lt 26 ]; do {piece}; i=$((i+1)); done; echo end"
            ended = await found.run(shell(script, log_cap_bytes=cap))
            assert ended.code == 0
            log, old = found.path("output.log"), found.path("output.log.1")
            assert old.exists()
            assert old.stat().st_size <= cap
            assert log.stat().st_size + old.stat().st_size < 26 * 131072
            assert found.log().endswith("end\n")

    asyncio.run(scene())


def test_more_runs_than_descriptors(tmp_path: Path) -> None:
    """With few descriptors shims are looked at once a second instead of being watched."""

    async def scene() -> None:
        async with desk(tmp_path) as found:
            for number in range(100):
                found.engine.start(shell("sleep 2.5; exit 4", job=str(number)))
            begun = [await found.started(str(number)) for number in range(100)]
            await asyncio.sleep(1.1)
            os.kill(begun[-1].shim.pid, 9)
            assert (await found.exited("99")).why == "lost"
            for number in range(99):
                assert (await found.exited(str(number))).code == 4
            assert len([r for r in found.reports if isinstance(r, RunExited)]) == 100

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, hard))
    try:
        asyncio.run(scene())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_directory_that_is_removed_does_not_keep_its_shim(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            found.engine.start(shell("sleep 0.4; exit 3"))
            begun = await found.started()
            for path in sorted(found.path(".").iterdir()):
                path.unlink()
            found.path(".").rmdir()
            assert (await found.exited()).code == 3
            await until(lambda: not os.path.exists(f"/proc/{begun.shim.pid}"))

    asyncio.run(scene())


def test_a_runtime_directory_with_a_long_path(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path / ("x" * 100) / ("y" * 100)) as found:
            assert (await found.run(shell("exit 5"))).code == 5

    asyncio.run(scene())
