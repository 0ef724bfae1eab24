"""Woven runs under a real engine: dead members are passed over at once, and no directory outlives its runs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from support.programs import staged_job, weave_member
from support.running.process_engine import Desk, desk, gone, kill, launch, until
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.weaves import WeaveSpec
from weft.train.weave.directory import read_counters

MEMBER = str(Path(weave_member.__file__))
LONG_S = 600.0


def woven(folder: Path, place: int, hold_s: float = 0.005, weave: str = "1-1") -> LaunchSpec:
    directory = folder / "weaves" / weave
    argv = (sys.executable, MEMBER, str(directory), str(place), str(folder / f"log{place}"), str(hold_s))
    return launch(*argv, job=str(place + 1), gpus=(0,), weave=WeaveSpec(weave, place, 2, "fair", LONG_S))


def turns(desk: Desk, place: int, weave: str = "1-1") -> int:
    found = [each for each in read_counters(desk.folder / "weaves" / weave) if each.place == place]
    return found[0].stages["gpu"].grants if found else 0


def test_the_members_of_a_weave_take_turns_and_the_last_one_clears_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk(tmp_path) as here:
            for place in (0, 1):
                here.engine.start(woven(tmp_path, place))
            await until(lambda: min(turns(here, 0), turns(here, 1)) > 20)
            here.engine.stop("1", 1, "preempted")
            await here.exited("1")
            before = turns(here, 1)
            await until(lambda: turns(here, 1) > before + 5)
            here.engine.stop("2", 1, "cancelled")
            await here.exited("2")
            assert not (tmp_path / "weaves").exists()

    asyncio.run(main())


def test_the_engine_passes_on_the_turn_of_a_killed_holder(tmp_path: Path) -> None:
    """The limit of a turn is ten minutes: the others do not wait for it."""

    async def main() -> None:
        async with desk(tmp_path) as here:
            here.engine.start(woven(tmp_path, 0, hold_s=LONG_S))
            await until(lambda: turns(here, 0) == 1)
            here.engine.start(woven(tmp_path, 1))
            await until(lambda: len(read_counters(tmp_path / "weaves" / "1-1")) == 2)
            kill((await here.started("1")).leader)
            await until(lambda: turns(here, 1) > 5)

    asyncio.run(main())


def test_nothing_is_left_after_engine_and_shims_were_killed(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk(tmp_path) as here:
            for place in (0, 1):
                here.engine.start(woven(tmp_path, place))
            await until(lambda: min(turns(here, 0), turns(here, 1)) > 5)
            started = [await here.started(job) for job in ("1", "2")]
            await here.engine.close()  # an engine writes nothing when it ends: this is what a kill leaves
            for each in started:
                kill(each.shim)
                await gone(each.shim)
            after = here.another()
            await after.open()
            await after.adopt([("1", 1), ("2", 1)])
            for job in ("1", "2"):
                assert (await here.exited(job)).why == "lost"
            for each in started:
                await gone(each.leader)
            assert not (tmp_path / "weaves").exists()

    asyncio.run(main())


def test_a_new_engine_keeps_the_weaves_of_living_runs(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk(tmp_path) as here:
            for place in (0, 1):
                here.engine.start(woven(tmp_path, place))
            await until(lambda: min(turns(here, 0), turns(here, 1)) > 5)
            (tmp_path / "weaves" / "0-stale").mkdir()
            await here.engine.close()
            after = here.another()
            await after.open()
            await after.adopt([("1", 1), ("2", 1)])
            assert os.listdir(tmp_path / "weaves") == ["1-1"]
            before = turns(here, 0), turns(here, 1)
            await until(lambda: turns(here, 0) > before[0] and turns(here, 1) > before[1])

    asyncio.run(main())


def test_a_run_moves_to_another_weave_and_the_old_one_is_removed_at_its_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk(tmp_path) as here:
            here.engine.start(woven(tmp_path, 0))
            await until(lambda: turns(here, 0) > 0)
            moved = WeaveSpec("1-2", 1, 2, "fair", LONG_S)
            assert here.engine.reweave("1", 1, moved)
            assert (tmp_path / "weaves" / "1-2" / "state").exists()
            assert here.engine.reweave("1", 1, moved), "the message may come twice"
            assert here.engine.reweave("1", 1, None)
            assert not here.engine.reweave("9", 1, moved)
            here.engine.stop("1", 1, "cancelled", 0.0)
            await here.exited("1")
            assert not (tmp_path / "weaves").exists()

    asyncio.run(main())


def test_the_weaves_that_a_run_has_left_are_removed_while_it_lives(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk(tmp_path) as here:
            job = (sys.executable, str(Path(staged_job.__file__)))
            here.engine.start(launch(*job, gpus=(0,), weave=WeaveSpec("1-1", 0, 2)))
            await until(lambda: turns(here, 0, "1-1") > 0)
            for place, name in enumerate(("1-2", "1-3")):
                assert here.engine.reweave("1", 1, WeaveSpec(name, place, 2))
                await until(lambda place=place, name=name: turns(here, place, name) > 0)  # type: ignore[misc]
            assert sorted(os.listdir(tmp_path / "weaves")) == ["1-2", "1-3"]
            assert here.engine.reweave("1", 1, None)
            assert os.listdir(tmp_path / "weaves") == ["1-3"]
            here.engine.stop("1", 1, "cancelled", 0.0)
            await here.exited("1")
            assert not (tmp_path / "weaves").exists()

    asyncio.run(main())


def test_a_run_that_exits_at_once_leaves_no_weave(tmp_path: Path) -> None:
    async def main() -> None:
        async with desk(tmp_path) as here:
            spec = launch("true", gpus=(0,), weave=WeaveSpec("1-1", 0, 2))
            assert (await here.run(spec)).code == 0
            assert not (tmp_path / "weaves").exists()

    asyncio.run(main())


def test_a_frozen_holder_of_a_weave_is_alive(tmp_path: Path) -> None:
    """Only the limit passes over a stopped process; neither the engine nor another member takes it for dead."""

    async def main() -> None:
        async with desk(tmp_path) as here:
            here.engine.start(woven(tmp_path, 0, hold_s=0.2))
            here.engine.start(woven(tmp_path, 1))
            await until(lambda: min(turns(here, 0), turns(here, 1)) > 1)
            leader = (await here.started("1")).leader
            os.kill(leader.pid, signal.SIGSTOP)
            here.engine.stop("2", 1, "cancelled", 0.0)
            await here.exited("2")
            assert [each.present for each in read_counters(tmp_path / "weaves" / "1-1")] == [True, False]
            os.kill(leader.pid, signal.SIGCONT)

    asyncio.run(main())
