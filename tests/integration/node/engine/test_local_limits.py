"""Runs on a machine without free disk or descriptors, and runs whose logs never end."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.process_engine import desk, launch, pidfds, shell, until
from weft.node.engine.events import RunExited
from weft.node.engine.output import logs
from weft.node.engine.output.logs import read_part
from weft.node.engine.shim.log_cap import BLOCK_BYTES
from weft.node.engine.shim.oom import read_tail


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    yield from mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=1m", "tmpfs")


@pytest.fixture
def disk_without_holes(tmp_path: Path) -> Iterator[Path]:
    """A file system that cannot free a part of a file."""
    yield from mounted(tmp_path / "disk", "-t", "ramfs", "ramfs")


def mounted(place: Path, *kind: str) -> Iterator[Path]:
    place.mkdir()
    mount = ["mount", *kind, str(place)]
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


MEBI = 1 << 20
COUNT = "i=0; while [ $i -lt {times} ]; do {piece}; i=$((i+1)); done; "
LINES = "seq -f %015.0f $((i * 65536 + 1)) $((i * 65536 + 65536))"
"""One mebibyte of numbered lines."""


def test_a_log_without_end_keeps_its_last_part_without_a_gap(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            script = COUNT.format(times=26, piece=f"{LINES}; sleep 0.1") + "exit 3"
            ended = await found.run(shell(script, log_cap_bytes=MEBI))
            assert ended.code == 3
            log = found.path("output.log")
            part = read_part(str(log), max_bytes=26 * MEBI)
            assert 0 < part.offset < part.size == 26 * MEBI
            assert MEBI <= len(part.text) <= 2 * MEBI
            assert log.stat().st_blocks * 512 <= 2 * MEBI + BLOCK_BYTES
            first = part.offset // 16 + 1
            assert [int(line) for line in part.text.split()] == list(range(first, 26 * 65536 + 1))

    asyncio.run(scene())


def test_the_cap_of_a_log_does_not_apply_to_a_file_of_the_user(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            script = COUNT.format(times=5, piece=LINES) + "exit 3"
            ended = await found.run(shell(script, log_cap_bytes=MEBI, chdir=str(tmp_path), output="out"))
            assert ended.code == 3
            own = tmp_path / "out"
            assert [int(line) for line in own.read_bytes().split()] == list(range(1, 5 * 65536 + 1))
            assert os.readlink(found.path("output.log")) == str(own)

    asyncio.run(scene())


@pytest.mark.parametrize("last", ["CUDA out of memory", "bye"])
def test_the_last_words_of_a_job_that_ends_over_the_cap_of_its_log_count(tmp_path: Path, last: str) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            script = COUNT.format(times=5, piece=LINES) + f"echo {last}; exit 1"
            ended = await found.run(shell(script, log_cap_bytes=MEBI))
            assert ended.why == ("oom" if "memory" in last else "")
            assert read_part(str(found.path("output.log")), lines=1).text == f"{last}\n".encode()

    asyncio.run(scene())


@pytest.mark.soak
def test_a_reader_that_lags_gets_every_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cap, times = 8 * MEBI, 60
    monkeypatch.setattr(logs, "LAG_BYTES", cap // 2)  # well below the cap, as with the cap of a real run

    async def scene() -> None:
        async with desk(tmp_path) as found:
            found.engine.start(shell(COUNT.format(times=times, piece=f"{LINES}; sleep 0.1"), log_cap_bytes=cap))
            path, text = str(found.path("output.log")), b""
            await until(lambda: read_part(path).size > cap)  # a reader that has begun, and lags
            while not found.seen(RunExited):
                text += read_part(path, len(text)).text
                await asyncio.sleep(0.2)
            while (part := read_part(path, len(text))).text:
                assert part.offset == len(text)
                text += part.text
            assert [int(line) for line in text.split()] == list(range(1, times * 65536 + 1))

    asyncio.run(scene())


def test_without_holes_in_files_the_log_is_copied_and_truncated(disk_without_holes: Path) -> None:
    async def scene() -> None:
        async with desk(disk_without_holes) as found:
            script = COUNT.format(times=5, piece=LINES) + "echo CUDA out of memory; exec sleep 60"
            found.engine.start(shell(script, log_cap_bytes=MEBI))
            older = found.path("output.log.1")
            await until(lambda: older.exists() and b"memory" in older.read_bytes() and not found.log())
            assert len(older.read_bytes()) == MEBI
            assert read_part(str(found.path("output.log"))).older == str(older)
            found.engine.stop("1", 1, "node-stop", 0.0)
            await found.exited()
            assert b"CUDA out of memory" in read_tail(str(found.path("output.log")))

    asyncio.run(scene())


def test_more_runs_than_descriptors(tmp_path: Path) -> None:
    """With few descriptors shims are looked at once a second instead of being watched."""

    async def scene() -> None:
        async with desk(tmp_path) as found:
            before = pidfds()
            for number in range(100):
                found.engine.start(shell("sleep 2.5; exit 4", job=str(number)))
            begun = [await found.started(str(number)) for number in range(100)]
            await until(lambda: pidfds() > before)  # the first look at all of them
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
