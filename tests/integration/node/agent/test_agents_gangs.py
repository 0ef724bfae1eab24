"""Real agents under the real roster and core: gangs, cuts, deaths, losses."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from support.peers.registry_server import cluster
from support.running.process_engine import until

PATH = (("PATH", os.environ["PATH"]),)
UP = "echo up; while :; do sleep 0.05; done"


def test_a_gang_starts_on_both_nodes_and_each_part_knows_which_it_is(tmp_path: Path) -> None:
    async def scene() -> None:
        async with cluster(tmp_path, "a", "b", gpus=2) as (scheduling, fleet):
            script = "echo $WEFT_NODE_RANK/$WEFT_NUM_NODES $WEFT_NODELIST $RANK/$WORLD_SIZE $MASTER_ADDR $WEFT_GPU_IDS"
            job = scheduling.submit("sh", "-c", script, gpus=4, env=PATH)
            assert await scheduling.ended(job) == "done"
            logs = [fleet.log(name, job) for name in ("a", "b")]
            assert sorted(logs) == ["0/2 a,b 0/2 127.0.0.1 0,1\n", "1/2 a,b 1/2 127.0.0.1 0,1\n"]

    asyncio.run(scene())


def test_one_process_for_each_gpu_of_the_gang(tmp_path: Path) -> None:
    async def scene() -> None:
        async with cluster(tmp_path, "a", "b", gpus=2) as (scheduling, fleet):
            job = scheduling.submit("sh", "-c", "echo $RANK/$WORLD_SIZE", gpus=4, per_gpu=True, env=PATH)
            assert await scheduling.ended(job) == "done"
            assert sorted((fleet.log("a", job) + fleet.log("b", job)).split()) == ["0/4", "1/4", "2/4", "3/4"]

    asyncio.run(scene())


def test_with_mpirun_only_the_first_node_starts_something(tmp_path: Path) -> None:
    async def scene() -> None:
        program = tmp_path / "mpirun"
        program.write_text("#!/bin/sh\ncat $OMPI_MCA_orte_default_hostfile\n")
        program.chmod(0o700)
        async with cluster(tmp_path, "a", "b", gpus=2) as (scheduling, fleet):
            job = scheduling.submit(str(program), "x", gpus=4, env=PATH)
            assert await scheduling.ended(job) == "done"
            assert (fleet.log("a", job), fleet.log("b", job)) == ("127.0.0.1 slots=4\n", "")

    asyncio.run(scene())


def test_a_part_that_fails_takes_the_others_with_it_and_the_gang_is_tried_again_as_one(tmp_path: Path) -> None:
    async def scene() -> None:
        async with cluster(tmp_path, "a", "b") as (scheduling, fleet):
            script = f"[ $WEFT_RUN = 2 ] && exit 0; [ $RANK = 1 ] && {{ sleep 0.3; exit 9; }}; {UP}"
            job = scheduling.submit("sh", "-c", script, gpus=2, retries=1, env=PATH)
            assert await scheduling.ended(job) == "done"
            assert scheduling.exits(job) == [(1, "failed", 9, ""), (2, "done", 0, "")]
            assert "up" in fleet.log("a", job) + fleet.log("b", job)

    asyncio.run(scene())


def test_a_scheduler_that_dies_finds_the_gang_as_it_was(tmp_path: Path) -> None:
    async def scene() -> None:
        async with cluster(tmp_path, "a", "b") as (scheduling, fleet):
            script = f"echo up $$; while ! [ -e {tmp_path}/go ]; do sleep 0.05; done"
            job = scheduling.submit("sh", "-c", script, gpus=2, env=PATH)
            await scheduling.running(job)
            await until(lambda: all("up" in fleet.log(name, job) for name in ("a", "b")))
            before = [fleet.log(name, job) for name in ("a", "b")]
            await scheduling.die_and_return()
            await until(lambda: len(list(scheduling.registry.members())) == 2)
            (tmp_path / "go").touch()
            assert await scheduling.ended(job) == "done"
            assert [fleet.log(name, job) for name in ("a", "b")] == before
            assert scheduling.exits(job) == [(1, "done", 0, "")]

    asyncio.run(scene())


def test_an_agent_that_dies_finds_its_part_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with cluster(tmp_path, "a", "b") as (scheduling, fleet):
            script = f"echo up $$; while ! [ -e {tmp_path}/go ]; do sleep 0.05; done"
            job = scheduling.submit("sh", "-c", script, gpus=2, env=PATH)
            await scheduling.running(job)
            await until(lambda: "up" in fleet.log("b", job))
            before = fleet.log("b", job)
            await fleet.stop("b")
            await until(lambda: scheduling.registry.conn_of("b") is None)
            await fleet.start("b")
            (tmp_path / "go").touch()
            assert await scheduling.ended(job) == "done"
            assert fleet.log("b", job) == before
            assert scheduling.exits(job) == [(1, "done", 0, "")]

    asyncio.run(scene())


def test_a_lost_node_holds_its_gang_until_the_survivors_have_gone(tmp_path: Path) -> None:
    """The part on the node that is lost ends by its lease; the other takes its time. Only then it runs again."""

    async def scene() -> None:
        trail = tmp_path / "trail"
        async with cluster(tmp_path, "a", "b", "c", lease_s=2.0, margin_s=8.0) as (scheduling, fleet):
            script = (
                f"echo $WEFT_RUN.$RANK begins >> {trail}; [ $WEFT_RUN = 2 ] && exit 0; "
                f"trap 'sleep 1; echo $WEFT_RUN.$RANK ends >> {trail}; exit 1' TERM; {UP}"
            )
            job = scheduling.submit("sh", "-c", script, gpus=2, env=PATH)
            await scheduling.running(job)
            placed = [node for node, _ in scheduling.rig.job(job).slots]
            await fleet.stop(placed[1])
            assert await scheduling.ended(job) == "done"
            assert f"-{placed[1]}" in scheduling.nodes_seen()
            assert [(number, how == "done") for number, how, _, _ in scheduling.exits(job)] == [(1, False), (2, True)]
            assert scheduling.rig.job(job).failures == 0
            words = trail.read_text().splitlines()
            last_end = max(at for at, line in enumerate(words) if line.startswith("1.") and line.endswith("ends"))
            assert last_end < min(at for at, line in enumerate(words) if line.startswith("2."))
            assert {"1.0 ends", "1.1 ends"} <= set(words)

    asyncio.run(scene())
