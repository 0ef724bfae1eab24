"""SIGTERM to every process of a node at once, as `scancel` and `systemctl stop` send it: no job fails by it."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import is_alive, site, until
from support.running.node_signals import shims_of, terminate, tree
from support.running.process_engine import Desk, desk, gone, shell
from support.running.process_engine import until as until_true
from weft.model import Exited
from weft.node.engine.events import RunExited, RunStarted
from weft.node.engine.exit_rules import exit_event
from weft.node.engine.recovery.node_stop import HOLD_S, WINDOW_S
from weft.node.engine.shim.process_id import send_signal

JOBS = 6


# ---- one engine


def play(folder: Path, scene: Callable[[Desk], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with desk(folder) as found:
            await scene(found)

    asyncio.run(whole())


async def killed(found: Desk, script: str = "sleep 60") -> RunStarted:
    found.engine.start(shell(f"echo up; {script}"))
    started = await found.started()
    await found.says("up")
    assert send_signal(started.leader, signal.SIGTERM)
    return started


def test_a_job_that_is_killed_alone_has_failed_a_moment_later(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        started = await killed(found, "exec sleep 60")
        await gone(started.leader)
        ended_at = time.monotonic()
        assert not found.seen(RunExited)
        ended = await found.exited()
        assert HOLD_S - 0.5 < time.monotonic() - ended_at < HOLD_S + 5
        assert (ended.signal, ended.why, exit_event(ended).how) == (15, "", "failed")

    play(tmp_path, scene)


@pytest.mark.parametrize("script", ["exec sleep 60", "trap 'exit 143' TERM; sleep 60 & wait"])
def test_the_next_engine_reports_the_end_of_the_node(tmp_path: Path, script: str) -> None:
    async def scene(found: Desk) -> None:
        started = await killed(found, script)
        await gone(started.leader)
        await until_true(lambda: found.engine._runs["1/1"].held_exit is not None)
        found.engine.begin_node_stop()
        await until_true(lambda: found.engine.unreported_exits == 1)
        assert not found.seen(RunExited)
        await found.engine.close()
        await found.another().open()
        await found.engine.adopt([("1", 1)])
        ended = await found.exited()
        fact = exit_event(ended)
        assert (fact.how, fact.why, fact.code) == ("lost", "node-stopped", 143)

    play(tmp_path, scene)


def test_an_engine_that_was_told_first_leaves_the_exit_too(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        found.engine.start(shell("exec sleep 60"))
        started = await found.started()
        found.engine.begin_node_stop()
        await found.engine.close()
        assert send_signal(started.leader, signal.SIGTERM)
        await gone(started.leader)
        await found.another().open()
        await found.engine.adopt([("1", 1)])
        assert (await found.exited()).why == "node-stopped"

    play(tmp_path, scene)


def test_a_run_that_outlives_the_engine_is_its_own_again(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        found.engine.start(shell("exec sleep 60"))
        started = await found.started()
        found.engine.begin_node_stop()
        await found.engine.close()
        await found.another().open()
        await found.engine.adopt([("1", 1)])
        ends_at = json.loads(found.path("node-stop.json").read_text())["until"]
        assert ends_at <= time.time() + HOLD_S, "the next engine shortens the mark"
        await until_true(lambda: time.time() > ends_at)
        assert send_signal(started.leader, signal.SIGTERM)
        assert exit_event(await found.exited()).how == "failed"

    play(tmp_path, scene)


def test_an_exit_long_after_the_engine_left_is_the_job_s_own(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        found.engine.start(shell("exec sleep 60"))
        started = await found.started()
        found.engine.begin_node_stop()
        mark = json.loads(found.path("node-stop.json").read_text())
        assert 0 < mark["until"] - time.time() <= WINDOW_S
        found.path("node-stop.json").write_text(json.dumps({"until": time.time() - 1}))
        await found.engine.close()
        assert send_signal(started.leader, signal.SIGTERM)
        await gone(started.leader)
        await found.another().open()
        await found.engine.adopt([("1", 1)])
        assert (await found.exited()).why == ""

    play(tmp_path, scene)


def test_cancelling_does_not_wait_for_an_exit_that_is_held_back(tmp_path: Path) -> None:
    async def scene(found: Desk) -> None:
        started = await killed(found, "exec sleep 60")
        await gone(started.leader)
        await until_true(lambda: found.engine._runs["1/1"].held_exit is not None)
        assert found.engine.stop("1", 1, "cancelled")
        assert [each.signal for each in found.seen(RunExited)] == [15]
        assert not found.engine.stop("1", 1, "cancelled")

    play(tmp_path, scene)


# ---- a whole node


def runs_again(here: Cluster, job: str) -> bool:
    row = here.job(job)
    return (row["status"], row["run"]) == ("running", 2)


@pytest.mark.parametrize("last_s", [0.0, 0.4])
def test_no_job_of_a_worker_fails(last_s: float) -> None:
    """`last_s`: how long after the jobs the worker itself hears of it."""
    with cluster("n1", gpus=JOBS) as here:
        jobs = [here.submit("sleep", "600", flags=("--gpus", "1")) for _ in range(JOBS)]
        for job in jobs:
            here.until_status(job, "running")
        worker = here.processes["n1"]
        shims = shims_of(here.workers / "n1" / "jobs")
        assert len(shims) == JOBS
        terminate([pid for pid in tree(worker.pid, *shims) if pid not in shims])
        time.sleep(last_s)
        terminate([*shims, worker.pid])
        assert worker.wait(30) == 0
        here.work("n1", gpus=JOBS)
        for job in jobs:
            until(partial(runs_again, here, job))
        ends = [fact for fact in here.facts() if isinstance(fact, Exited)]
        assert [(end.how, end.why) for end in ends] == [("lost", "node-stopped")] * JOBS


def test_no_job_of_the_scheduler_of_this_machine_fails() -> None:
    with site({"gpus": ",".join(map(str, range(JOBS))), "min_run_s": 0}) as here:
        with here.client() as client:
            jobs = [here.submit(client, "sleep", "600", gpus="1") for _ in range(JOBS)]
            until(lambda: {row.status for row in client.jobs(jobs).jobs} == {"running"})
        scheduler = here.pid()
        shims = shims_of(here.paths.jobs)
        assert len(shims) == JOBS
        terminate([*tree(*shims), *tree(scheduler), *shims, scheduler])
        until(lambda: not is_alive(scheduler))
        with here.client() as client:
            until(lambda: {(row.status, row.run) for row in client.jobs(jobs).jobs} == {("running", 2)})
