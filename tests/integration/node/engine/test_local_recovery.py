"""Shims, starters and engines that die: no run is lost, run twice, or left on its GPUs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from support.running.process_engine import Desk, desk, gone, kill, pidfds, shell, until
from weft.node.engine.events import RunExited, RunStarted
from weft.node.engine.exit_rules import exit_event
from weft.node.engine.recovery import run_record
from weft.node.engine.shim.process_id import Identity, boot_id, identify, is_alive
from weft.node.engine.shim.process_tree import descendants, list_processes

DRIVER = """
import asyncio, sys, json
from pathlib import Path
from weft.node.engine.engine import ProcessEngine
from weft.node.engine.launch_spec import LaunchSpec

async def main():
    folder = Path(sys.argv[1])
    engine = ProcessEngine("here", folder / "jobs", folder / "runtime", lambda report: print(report, flush=True))
    await engine.open()
    for job, script in json.loads(sys.argv[2]).items():
        engine.start(LaunchSpec(job, 1, ("/bin/sh", "-c", script), env=(("PATH", "/usr/bin:/bin"),)))
    await asyncio.sleep(60)

asyncio.run(main())
"""


def engine_elsewhere(folder: Path, **scripts: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", DRIVER, str(folder), json.dumps(scripts)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, env=env)


async def adopting(folder: Path, *jobs: str) -> Desk:
    found = Desk(folder)
    await found.engine.open()
    await found.engine.adopt((job, 1) for job in jobs)
    return found


async def leave(found: Desk) -> None:
    found.kill_all()
    await until(lambda: not found.engine.runs)
    await found.engine.close()


def test_a_killed_engine_is_followed_by_one_that_finds_everything(tmp_path: Path) -> None:
    async def scene() -> None:
        first = engine_elsewhere(tmp_path, long="echo $$; sleep 1.5; exit 7", short="exit 3", slow="sleep 0.6; exit 5")
        long = tmp_path / "jobs" / "long" / "1"
        await until(lambda: (long / "started.json").exists() and (tmp_path / "jobs/short/1/exit.json").exists())
        elders = [Identity(boot_id(), stat.pid, stat.start) for stat in descendants([first.pid], list_processes())]
        first.kill()
        first.wait()
        leader = json.loads((long / "started.json").read_bytes().rstrip(b"\0"))["leader"]
        await until(lambda: (tmp_path / "jobs/slow/1/exit.json").exists())
        found = await adopting(tmp_path, "long", "short", "slow", "unheard-of")
        try:
            assert (await found.started("long")).leader == tuple(leader)
            assert [(await found.exited(job)).code for job in ("short", "slow", "long")] == [3, 5, 7]
            assert found.log("long").split() == [str(leader[1])]
            never = await found.exited("unheard-of")
            assert (never.why, exit_event(never).how) == ("never-started", "lost")
            assert len(found.reports) == 5
            for who in elders:
                await gone(who)
        finally:
            await leave(found)

    asyncio.run(scene())


def test_the_starter_ends_with_its_engine_and_the_shims_do_not(tmp_path: Path) -> None:
    async def scene() -> None:
        found = Desk(tmp_path)
        await found.engine.open()
        found.engine.start(shell("sleep 0.5; exit 6"))
        begun = await found.started()
        assert found.engine.starter_pid is not None
        starter = identify(found.engine.starter_pid)
        assert starter is not None
        await found.engine.close()
        await gone(starter)
        assert is_alive(begun.leader)
        again = await adopting(tmp_path, "1")
        assert (await again.exited()).code == 6
        assert again.seen(RunStarted)[0].leader == begun.leader
        await leave(again)

    asyncio.run(scene())


def test_a_killed_shim_takes_its_run_with_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            before = pidfds()
            found.engine.start(shell("setsid sleep 60 & sleep 60 & wait"))
            begun = await found.started()
            await until(lambda: pidfds() > before)  # the engine watches its shim
            at = time.monotonic()
            kill(begun.shim)
            ended = await found.exited()
            assert time.monotonic() - at < 25
            assert (ended.why, exit_event(ended).how) == ("lost", "lost")
            assert "3 remaining processes" in ended.detail
            await gone(begun.leader)

    asyncio.run(scene())


def test_a_shim_killed_while_nobody_looked(tmp_path: Path) -> None:
    async def scene() -> None:
        first = engine_elsewhere(tmp_path, job="sleep 60 & sleep 60")
        file = tmp_path / "jobs" / "job" / "1" / "started.json"
        await until(file.exists)
        first.kill()
        first.wait()
        evidence = run_record.read_evidence(str(file.parent), 0.0)
        assert evidence.started is not None
        kill(evidence.started.shim)
        found = await adopting(tmp_path, "job")
        ended = await found.exited("job")
        assert (ended.why, exit_event(ended).how) == ("lost", "lost")
        assert not is_alive(evidence.started.leader)
        await leave(found)

    asyncio.run(scene())


def test_a_killed_starter_is_replaced(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            found.engine.start(shell("sleep 2; exit 6"))
            begun = await found.started()
            assert found.engine.starter_pid is not None
            os.kill(found.engine.starter_pid, signal.SIGKILL)
            found.engine.start(shell("exit 2", job="early"))
            early = await found.exited("early")
            assert (early.code, early.why) in ((None, "never-started"), (2, ""))
            await until(lambda: found.engine.starter_pid is None)
            between = [await found.run(shell("exit 4", job=f"between-{number}")) for number in range(2)]
            assert [ended.code for ended in between] == [4, 4], "they wait for the next starter"
            assert found.engine.starter_pid is not None
            assert (await found.run(shell("exit 3", job="late"))).code == 3
            assert (await found.exited()).code == 6
            assert found.seen(RunStarted) == [begun]

    asyncio.run(scene())


def test_killed_idle_shims_are_replaced(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            for turn in range(3):
                first = [str(10 * turn + number) for number in range(4)]
                for job in first:
                    await found.run(shell("true", job=job))
                assert found.engine.starter_pid is not None
                idle = [
                    Identity(boot_id(), stat.pid, stat.start)
                    for stat in descendants([found.engine.starter_pid], list_processes())
                ]
                for who in idle:
                    kill(who)
                for who in idle:
                    await gone(who)
                for number in range(5, 9):
                    found.engine.start(shell("sleep 60", job=str(10 * turn + number)))
                for number in range(5, 9):
                    await found.started(str(10 * turn + number))
                for number in range(5, 9):
                    found.engine.stop(str(10 * turn + number), 1, "cancelled", 0.0)
                    await found.exited(str(10 * turn + number))

    asyncio.run(scene())


def test_what_was_given_up_never_starts(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            folder = found.path(".")
            assert run_record.fence(str(folder))
            assert not run_record.fence(str(folder))
            found.engine.start(shell("touch ran"))
            assert (await found.exited()).why == "never-started"
            assert not (folder / "ran").exists()
            assert not found.path("started.json").exists()

    asyncio.run(scene())


def test_the_claim_names_the_shim(tmp_path: Path) -> None:
    """So that a run is found even if its shim dies before it has written that it started."""

    async def scene() -> None:
        async with desk(tmp_path) as found:
            found.engine.start(shell("sleep 60"))
            begun = await found.started()
            found.path("started.json").rename(found.path("claim.json"))
            evidence = run_record.read_evidence(str(found.path(".")), 0.0)
            assert evidence.shim == begun.shim
            assert run_record.judge(evidence, boot_id(), is_alive) == "alive"
            kill(begun.shim)
            assert (await found.exited()).why == "lost"
            await gone(begun.leader)

    asyncio.run(scene())


def forge(folder: Path, boot: str, pid: int, start: int) -> None:
    """Files as a shim would have left them."""
    who = [boot, pid, start]
    body = {"is": "started", "job": "1", "run": 1, "token": "t", "shim": who, "leader": who, "at": 1.0}
    folder.mkdir(parents=True)
    (folder / "started.json").write_text(json.dumps(body))


def test_a_reused_pid_is_never_signalled(tmp_path: Path) -> None:
    async def scene() -> None:
        stranger = subprocess.Popen(["sleep", "60"])
        try:
            who = identify(stranger.pid)
            assert who is not None
            forge(tmp_path / "jobs" / "1" / "1", who.boot, who.pid, who.start - 1)
            found = await adopting(tmp_path, "1")
            assert found.seen(RunExited)[0].why == "lost"
            assert stranger.poll() is None
            await leave(found)
        finally:
            stranger.kill()
            stranger.wait()

    asyncio.run(scene())


def test_after_a_reboot(tmp_path: Path) -> None:
    async def scene() -> None:
        me = identify(os.getpid())
        assert me is not None
        forge(tmp_path / "jobs" / "1" / "1", "another-boot", me.pid, me.start)
        found = await adopting(tmp_path, "1")
        ended = found.seen(RunExited)[0]
        assert (ended.why, exit_event(ended).how) == ("reboot", "lost")
        assert me.boot == boot_id() != "another-boot"
        await leave(found)

    asyncio.run(scene())


def test_stop_reaches_an_adopted_run(tmp_path: Path) -> None:
    async def scene() -> None:
        first = engine_elsewhere(tmp_path, job="trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done")
        log = tmp_path / "jobs" / "job" / "1" / "output.log"
        await until(lambda: log.exists() and log.read_text() == "ready\n")
        first.kill()
        first.wait()
        found = await adopting(tmp_path, "job")
        assert found.engine.stop("job", 1, "preempted")
        ended = await found.exited("job")
        assert (ended.code, ended.why) == (5, "preempted")
        await leave(found)

    asyncio.run(scene())


def test_the_engine_dies_at_random_moments(tmp_path: Path) -> None:
    """Ten engines in a row are killed while they start runs; each run ends once, with its own code, or never began."""

    async def scene() -> None:
        for turn in range(10):
            folder = tmp_path / str(turn)
            scripts = {f"j{number}": f"echo once; exit {number}" for number in range(20)}
            first = engine_elsewhere(folder, **scripts)
            await until(lambda folder=folder: (folder / "runtime" / "bell.sock").exists())  # type: ignore[misc]
            await asyncio.sleep(0.01 * turn)
            first.kill()
            first.wait()
            found = await adopting(folder, *scripts)
            for number in range(20):
                job = f"j{number}"
                ended = await found.exited(job)
                if ended.why == "never-started":
                    assert not found.path("output.log", job).exists()
                else:
                    assert (ended.code, ended.why) == (number, "")
                    assert found.log(job) == "once\n"
                assert len(found.seen(RunExited, job)) == 1
            await leave(found)

    asyncio.run(scene())
