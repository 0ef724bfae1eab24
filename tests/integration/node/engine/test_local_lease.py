"""Runs with a lease, which end unless it is extended: real processes, real clock."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from support.file_opens import opens_of
from support.running.process_engine import desk, gone, shell, until
from weft.node.engine import lease
from weft.node.engine.shim.process_id import is_alive

FOR_EVER = "trap '' TERM; echo up; while :; do sleep 0.1; done"


def lend(folder: Path, seconds: float) -> str:
    path = str(folder / "lease")
    lease.write(path, lease.now() + seconds)
    return path


def test_a_run_whose_lease_is_extended_lives_on_and_ends_by_itself(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            found.engine.start(shell("while ! [ -e ../../../enough ]; do sleep 0.05; done", lease=lend(tmp_path, 2.0)))
            run = await found.started()
            first_end = lease.read(str(tmp_path / "lease"))
            path = Path(lend(tmp_path, 60.0))
            with opens_of(path) as looks:
                await until(lambda: looks() > 0)  # the shim reads the lease again once the first one is over
            assert lease.now() > first_end
            assert is_alive(run.leader)
            (tmp_path / "enough").touch()
            ended = await found.exited()
            assert (ended.code, ended.why) == (0, "")

    asyncio.run(scene())


def test_a_run_whose_lease_is_not_extended_may_save_and_is_ended(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            script = "trap 'test -e $WEFT_PREEMPT_FILE && echo saved; exit 85' TERM; while :; do sleep 0.1; done"
            found.engine.start(shell(script, lease=lend(tmp_path, 1.0)))
            ended = await found.exited()
            assert (ended.code, ended.why) == (85, lease.ENDED)
            assert found.log() == "saved\n"
            assert lease.now() >= lease.read(str(tmp_path / "lease"))

    asyncio.run(scene())


def test_a_run_that_does_not_listen_is_killed_without_an_agent(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            found.engine.start(shell(FOR_EVER, lease=lend(tmp_path, 2.0), log_cap_bytes=0))
            run = await found.started()
            await found.says("up")
            await found.engine.close()  # nobody is there any more to end it
            await gone(run.leader)
            await until(found.path("exit.json").exists)
            record = json.loads(found.path("exit.json").read_text())
            assert (record["why"], record["signal"]) == (lease.ENDED, 9)
            await found.another().open()
            await found.engine.adopt([("1", 1)])
            assert (await found.exited()).why == lease.ENDED

    asyncio.run(scene())


def test_a_run_is_not_started_without_a_lease(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            for job, path in (("ended", lend(tmp_path, -1.0)), ("none", str(tmp_path / "nobody wrote this"))):
                ended = await found.run(shell("echo never", job=job, lease=path))
                assert (ended.why, ended.started_at) == (lease.ENDED, 0.0)
                assert found.log(job) == ""

    asyncio.run(scene())


def test_a_run_that_is_told_to_stop_before_stays_told(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            found.engine.start(shell(FOR_EVER, lease=lend(tmp_path, 1.5), preempt_grace_s=600.0))
            await found.says("up")
            found.engine.stop("1", 1, "preempted")
            ended = await found.exited()  # not after ten minutes: the lease ends it sooner
            assert (ended.why, ended.signal) == ("preempted", 9)

    asyncio.run(scene())
