"""Runs that use more main memory or CPUs than they asked for, with control groups and without."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from support.running.process_engine import Desk, desk, launch, until
from weft.node.engine import cgroups
from weft.node.engine.cgroups import Cgroups
from weft.node.engine.exit_rules import exit_event
from weft.node.engine.launch_spec import LaunchSpec

GREEDY = (
    "import time; kept = bytearray(400 << 20); kept[::4096] = b'x' * len(kept[::4096]); print('got it'); time.sleep(60)"
)
MODEST = "kept = bytearray(10 << 20); print('done')"
Play = Callable[[Desk], Awaitable[None]]


def python(program: str, *, ram_mb: int, cpu_limit: int = 0) -> LaunchSpec:
    return launch("/usr/bin/env", "python3", "-c", program, ram_mb=ram_mb, cpu_limit=cpu_limit)


@pytest.fixture(params=["groups", "watched"])
def play(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Play], None]:
    if request.param == "watched":
        monkeypatch.setattr(cgroups, "find", lambda: Cgroups(why="switched off"))
    elif not (found := cgroups.find()).version:
        pytest.skip(f"no control groups can be made here: {found.why}")

    def run(scene: Play) -> None:
        async def whole() -> None:
            async with desk(tmp_path) as made:
                await scene(made)

        asyncio.run(whole())

    return run


def test_a_run_that_uses_more_memory_than_it_asked_for_ends(play: Callable[[Play], None]) -> None:
    async def scene(found: Desk) -> None:
        ended = await found.run(python(GREEDY, ram_mb=100))
        assert (ended.why, ended.signal) == ("ram", 9)
        assert "more than its 100 MB" in ended.detail
        assert exit_event(ended).how == "failed"
        assert groups_of(found) == []

    play(scene)


def test_a_run_within_its_limits_ends_as_it_likes(play: Callable[[Play], None]) -> None:
    async def scene(found: Desk) -> None:
        ended = await found.run(python(MODEST, ram_mb=200, cpu_limit=1))
        assert (ended.why, ended.code, found.log()) == ("", 0, "done\n")
        assert groups_of(found) == []

    play(scene)


def test_the_groups_of_runs_whose_shim_was_killed_are_removed(tmp_path: Path) -> None:
    if not (able := cgroups.find()).version:
        pytest.skip(f"no control groups can be made here: {able.why}")
    stale = [Path(folder) / "1-1-stale" for folder in set(able.folders.values())]
    for folder in stale:
        folder.mkdir()

    async def whole() -> None:
        async with desk(tmp_path):
            assert not any(folder.exists() for folder in stale)

    asyncio.run(whole())


def test_a_group_limits_the_cpus_of_a_run(tmp_path: Path) -> None:
    if (able := cgroups.find()).version != 1:
        pytest.skip(f"needs control groups of version 1: {able.why}")

    async def whole() -> None:
        async with desk(tmp_path) as found:
            found.engine.start(python("import time; print('up', flush=True); time.sleep(60)", ram_mb=64, cpu_limit=2))
            await found.says("up")
            await until(lambda: len(groups_of(found)) == 2)
            values = {
                name: (Path(group) / name).read_text().strip()
                for group in groups_of(found)
                for name in ("cpu.cfs_quota_us", "memory.limit_in_bytes")
                if (Path(group) / name).exists()
            }
            assert values == {"cpu.cfs_quota_us": "200000", "memory.limit_in_bytes": str(64 << 20)}
            (leader,) = (Path(groups_of(found)[0]) / "cgroup.procs").read_text().split()
            assert "python3" in Path(f"/proc/{leader}/cmdline").read_text()

    asyncio.run(whole())


def groups_of(found: Desk) -> list[str]:
    """The groups of runs that exist now."""
    folders = sorted(set(found.engine.cgroups.folders.values()))
    return [entry.path for folder in folders for entry in os.scandir(folder) if entry.name.startswith("1-1-")]
