"""Runs that are told to end: by their time limit, by preemption, by cancellation; and what they leave behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from support.running.process_engine import Desk, desk, gone, launch, shell, stopped, until
from weft.node.engine.events import RunStarted
from weft.node.engine.exit_rules import exit_event
from weft.node.engine.shim.process_id import Identity, identify, is_alive

Play = Callable[[Desk], Awaitable[None]]


def play(folder: Path, scene: Play) -> None:
    async def whole() -> None:
        async with desk(folder) as found:
            await scene(found)

    asyncio.run(whole())


async def child_of(found: Desk, job: str = "1") -> Identity:
    """The process whose pid the job has written to its log."""
    await until(lambda: found.path("output.log", job).exists() and found.log(job).strip().endswith("."))
    who = identify(int(found.log(job).split()[-1].rstrip(".")))
    assert who is not None
    return who


def test_time_is_up(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        ended = await found.run(shell("sleep 30", time_limit_s=0.2))
        assert (ended.signal, ended.why) == (15, "timeout")
        assert exit_event(ended).how == "failed"
        assert 0.2 <= ended.ran_s < 5

    play(tmp_path, scene)


def test_time_is_up_and_it_asks_for_more(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        ended = await found.run(shell("trap 'exit 85' TERM; sleep 30 & wait", time_limit_s=0.2))
        assert (exit_event(ended).how, ended.why) == ("requeued", "timeout")

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("script", "more", "how"),
    [
        ("mkdir $WEFT_CKPT_DIR/a; sleep 30", {"requeue": True}, "requeued"),
        ("mkdir $WEFT_CKPT_DIR/a; sleep 30", {}, "failed"),
        ("echo > $WEFT_CKPT_DIR/unsent.json; sleep 30", {"requeue": True}, "failed"),
        ("trap : USR1; while :; do sleep 0.1; done", {"requeue": True, "signal": "B:USR1@1"}, "requeued"),
        ("sleep 30", {"requeue": True, "signal": "B:USR1@1"}, "failed"),
    ],
)
def test_at_its_limit_a_run_that_has_saved_runs_again_if_its_job_says_so(
    tmp_path: Path, script: str, more: dict[str, Any], how: str
) -> None:
    async def scene(found: Desk) -> None:
        ended = await found.run(shell(script, time_limit_s=1.5, grace_s=0.2, **more))
        assert exit_event(ended).how == how, ended

    play(tmp_path, scene)


def test_whoever_ignores_the_signal_is_killed_after_the_grace(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        stubborn = "trap '' TERM; (trap '' TERM; while :; do sleep 0.1; done) & echo $!.; while :; do sleep 0.1; done"
        found.engine.start(shell(stubborn))
        child = await child_of(found)
        asked = time.monotonic()
        assert found.engine.stop("1", 1, "cancelled", 0.3)
        ended = await found.exited()
        assert 0.3 <= time.monotonic() - asked < 25
        assert (ended.signal, ended.why, exit_event(ended).how) == (9, "cancelled", "stopped")
        assert not is_alive(child)

    play(tmp_path, scene)


def test_cancelling_tells_the_whole_tree(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        child = "sh -c \"trap 'echo child told; exit' TERM; echo ready; while :; do sleep 0.05; done\""
        found.engine.start(shell(f"trap 'echo leader told; wait; exit 9' TERM; {child} & wait; wait"))
        await found.says("ready")
        found.engine.stop("1", 1, "cancelled")
        ended = await found.exited()
        assert {"leader told", "child told"} <= set(found.log().splitlines())
        assert (ended.code, exit_event(ended).how) == (9, "stopped")

    play(tmp_path, scene)


def test_preempting_tells_the_leader_alone_and_shows_the_file(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        child = "sh -c \"trap 'echo child told' TERM; while :; do sleep 0.05; done\""
        leader = "trap 'ls $WEFT_PREEMPT_FILE; sleep 0.3; echo saved; kill -9 $!; exit 0' TERM"
        found.engine.start(shell(f"{child} & {leader}; echo ready; while :; do wait; done"))
        await found.says("ready")
        assert not found.path("preempt").exists()
        found.engine.stop("1", 1, "preempted", 10.0)
        ended = await found.exited()
        assert found.log().splitlines() == ["ready", str(found.path("preempt")), "saved"]
        assert (ended.code, ended.why, exit_event(ended).how) == (0, "preempted", "stopped")

    play(tmp_path, scene)


def test_one_that_was_complete_when_preempted_is_done(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        found.engine.start(
            shell("trap 'touch \"$WEFT_DONE_FILE\"; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
        )
        await found.says("ready")
        found.engine.stop("1", 1, "preempted")
        ended = await found.exited()
        assert exit_event(ended).how == "done"

    play(tmp_path, scene)


def test_a_stopped_process_is_woken_to_hear_it(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        found.engine.start(shell("echo ready; kill -STOP $$"))
        await found.says("ready")
        await asyncio.sleep(0.05)
        found.engine.stop("1", 1, "preempted", 20.0)
        ended = await found.exited()
        assert ended.signal == 15
        assert ended.ran_s < 10

    play(tmp_path, scene)


def test_a_second_stop_makes_it_sooner(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        found.engine.start(shell("trap '' TERM; echo ready; while :; do sleep 0.1; done"))
        await found.says("ready")
        found.engine.stop("1", 1, "preempted", 60.0)
        await asyncio.sleep(0.1)
        found.engine.stop("1", 1, "cancelled", 0.0)
        ended = await found.exited()
        assert (ended.signal, ended.why) == (9, "preempted")
        assert ended.ran_s < 10

    play(tmp_path, scene)


def test_one_stopped_before_it_began_never_begins_or_ends_at_once(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        for number in range(20):
            job = str(number)
            found.engine.start(shell("sleep 60", job=job))
            found.engine.stop(job, 1, "cancelled")
        for number in range(20):
            ended = await found.exited(str(number))
            assert (ended.why, exit_event(ended).how) == ("cancelled", "stopped")

    play(tmp_path, scene)


def test_stopping_what_has_ended_does_nothing(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        await found.run(launch("true"))
        assert not found.engine.stop("1", 1, "cancelled")
        assert not found.engine.stop("unknown", 1, "cancelled")
        assert not found.path("stop.json").exists()

    play(tmp_path, scene)


@pytest.mark.parametrize("ignores", [False, True])
def test_what_detaches_itself_does_not_stay(tmp_path: Path, ignores: bool) -> None:
    async def scene(found: Desk) -> None:
        trap = "trap '' TERM;" if ignores else ""
        detached = f'setsid sh -c "{trap} echo \\$\\$.; while :; do sleep 0.05; done" &'
        found.engine.start(shell(f"({detached}) ; sleep 0.3; exit 4"))
        child = await child_of(found)
        ended = await found.exited()
        assert ended.code == 4
        assert ended.leftovers >= 1
        await gone(child)

    play(tmp_path, scene)


def test_a_detached_tree_is_stopped_with_its_run(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        found.engine.start(shell("(setsid sh -c 'echo $$.; exec sleep 60' &); exec sleep 60"))
        child = await child_of(found)
        found.engine.stop("1", 1, "cancelled", 0.0)
        await found.exited()
        assert not is_alive(child)

    play(tmp_path, scene)


def test_many_that_ignore_the_signal_are_killed_at_once(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        for number in range(10):
            found.engine.start(shell("trap '' TERM; echo ready; while :; do sleep 1; done", job=str(number)))
        for number in range(10):
            await found.says("ready", str(number))
        found.kill_all()
        for number in range(10):
            assert (await found.exited(str(number))).signal == 9
        assert not any(is_alive(r.leader) for r in found.reports if isinstance(r, RunStarted))

    play(tmp_path, scene)


@pytest.mark.parametrize(("signal", "heard"), [("USR2@60", {"parent", "child"}), ("B:USR2@60", {"parent"})])
def test_the_users_signal_arrives_ahead_of_the_time_limit(tmp_path: Path, signal: str, heard: set[str]) -> None:
    child = "trap 'printf \"child \"; exit' USR2; while :; do sleep 0.1; done"
    parent = f"({child}) & trap 'sleep 0.5; printf \"parent \"; kill $!; exit 85' USR2; while :; do sleep 0.1; done"

    async def scene(found: Desk) -> None:
        ended = await found.run(shell(parent, time_limit_s=61.0, signal=signal))
        assert (exit_event(ended).how, ended.why) == ("requeued", "")
        assert {"parent", "child"} & set(found.log("1").split()) == heard, "sh also prints what the signal did to sleep"

    play(tmp_path, scene)


def test_a_preempted_run_gets_the_users_signal_instead_of_sigterm(tmp_path: Path) -> None:
    waits = "trap 'echo usr2; exit 0' USR2; trap 'echo term; exit 1' TERM; echo ready; while :; do sleep 0.1; done"

    async def scene(found: Desk) -> None:
        found.engine.start(shell(waits, signal="B:USR2@60"))
        await until(lambda: found.path("output.log", "1").exists() and "ready" in found.log("1"))
        assert found.engine.stop("1", 1, "preempted")
        ended = await found.exited()
        assert (ended.code, ended.why, found.log("1").split()) == (0, "preempted", ["ready", "usr2"])

    play(tmp_path, scene)


TICKING = "(while :; do echo child; sleep 0.05; done) & while :; do echo parent; sleep 0.05; done"


async def silent(found: Desk) -> None:
    await found.started()
    shim = found.engine.runs["1", 1]
    assert shim is not None
    await stopped(shim.pid)


def test_a_suspended_run_stands_still_with_all_its_processes_until_it_continues(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        found.engine.start(shell(TICKING))
        await found.says("child")
        assert found.engine.suspend("1", 1, True)
        await silent(found)
        before = found.log()
        assert found.engine.suspend("1", 1, False)
        await until(lambda: found.log().count("child") > before.count("child") + 3)
        await until(lambda: found.log().count("parent") > before.count("parent") + 3)
        found.engine.stop("1", 1, "cancelled")
        await found.exited()
        assert not found.engine.suspend("1", 1, True)

    play(tmp_path, scene)


def test_a_suspended_run_that_is_preempted_can_save_its_work(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        found.engine.start(shell("trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"))
        await found.says("ready")
        found.engine.suspend("1", 1, True)
        await silent(found)
        found.engine.stop("1", 1, "preempted")
        ended = await found.exited()
        assert (ended.code, ended.why, "saved" in found.log()) == (0, "preempted", True)

    play(tmp_path, scene)
