"""One process for each GPU: real processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from support.running.process_engine import Desk, desk, launch, shell
from weft.node.engine.rendezvous import Gang, GangMember


def lines(found: Desk, job: str = "1") -> list[str]:
    return sorted(found.log(job).splitlines())


def test_each_is_told_which_it_is(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            script = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $WEFT_GPU_ID of $CUDA_VISIBLE_DEVICES"
            ended = await found.run(shell(script, gpus=(3, 5), per_gpu=True))
            assert ended.code == 0
            assert lines(found) == ["0/2 0/2 3 of 3,5", "1/2 1/2 5 of 3,5"]
            gang = Gang((GangMember("a", "127.0.0.1", 3), GangMember("here", "127.0.0.1", 2)), 1, 20000)
            await found.run(shell(script, job="2", gpus=(0, 1), per_gpu=True, gang=gang))
            assert lines(found, "2") == ["3/5 0/2 0 of 0,1", "4/5 1/2 1 of 0,1"]

    asyncio.run(scene())


def test_one_that_fails_takes_the_others_with_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            script = "[ $RANK = 1 ] && exit 9; trap 'echo told; exit 3' TERM; while :; do sleep 0.05; done"
            ended = await found.run(shell(script, gpus=(0, 1, 2), per_gpu=True))
            assert (ended.code, ended.why, ended.leftovers) == (9, "", 0)

    asyncio.run(scene())


def test_a_signal_that_kills_one_counts_as_a_shell_counts_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            script = "[ $RANK = 0 ] && kill -SEGV $$; exec sleep 60"
            assert (await found.run(shell(script, gpus=(0, 1), per_gpu=True))).code == 139

    asyncio.run(scene())


def test_all_may_save_when_they_are_preempted(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            # the second takes longer: that the first has ended is no reason to hurry it
            script = "trap 'sleep $RANK; echo saved $RANK; exit 85' TERM; echo up; while :; do sleep 0.05; done"
            found.engine.start(shell(script, gpus=(0, 1), per_gpu=True))
            await found.says("up\nup\n")
            found.engine.stop("1", 1, "preempted")
            ended = await found.exited()
            assert (ended.code, ended.why) == (85, "preempted")
            assert lines(found) == ["saved 0", "saved 1", "up", "up"]

    asyncio.run(scene())


def test_what_cannot_be_started_says_so(tmp_path: Path) -> None:
    async def scene() -> None:
        async with desk(tmp_path) as found:
            for name, mode, code in (("none", None, 127), ("text", 0o600, 126), ("noise", 0o700, 126)):
                program = tmp_path / name
                if mode is not None:
                    program.write_bytes(b"\x7fELF of no machine")
                    program.chmod(mode)
                ended = await found.run(launch(str(program), job=name, gpus=(0, 1), per_gpu=True))
                assert ended.code == code
                assert str(program) in found.log(name)

    asyncio.run(scene())
