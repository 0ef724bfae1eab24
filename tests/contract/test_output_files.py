"""The output of a run in files of its user, on every backend."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.running.backend_servers import KINDS, NODE, BackendServer, Kind, play

pytestmark = pytest.mark.parametrize("kind", KINDS)
AGAIN = "[ $WEFT_RUN = 2 ] || exit 85"
"""The first run asks for another."""


@pytest.fixture
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("o")  # short: sockets are in it


async def stderr_of(server: BackendServer, run: int = 1) -> bytes:
    part = await server.controller.run_logs.read(server.job(), run, 0, 0, 0, stderr=True)
    assert part is not None
    return part.text


def test_output_goes_to_the_file_that_the_user_names(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        (root / "logs").mkdir()
        (root / "logs" / f"1-0001-{NODE}-%.out").write_text("of an earlier job\n")
        await server.submit("echo out; echo err >&2", chdir=str(root), output="logs/%j-%4A-%N-%%.out")
        await server.ended()
        assert (root / "logs" / f"1-0001-{NODE}-%.out").read_text() == "out\nerr\n"
        assert await server.log() == b"out\nerr\n"
        assert await server.log(lines=1) == b"err\n"

    play(kind, root, scene)


def test_standard_error_has_a_separate_file(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit("echo out; echo err >&2", chdir=str(root), error="%a.err")
        await server.ended()
        assert (root / "0.err").read_text() == "err\n"
        assert (await server.log(), await stderr_of(server)) == (b"out\n", b"err\n")

    play(kind, root, scene)


def test_one_file_for_both_streams_keeps_every_line(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit("echo out; echo err >&2", chdir=str(root), output="both", error=f"{root}/both")
        await server.ended()
        assert (root / "both").read_text() == "out\nerr\n"
        assert await server.log() == await stderr_of(server) == b"out\nerr\n"

    play(kind, root, scene)


def test_later_runs_append_and_each_log_has_its_own_run(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        script = f"echo run $WEFT_RUN; echo oops $WEFT_RUN >&2; {AGAIN}"
        await server.submit(script, chdir=str(root), output="out", error="err")
        await server.ended()
        assert (root / "out").read_text() == "run 1\nrun 2\n"
        assert (root / "err").read_text() == "oops 1\noops 2\n"
        assert await server.log(run=2) == b"run 2\n"
        assert await server.log(run=2, lines=5) == b"run 2\n"
        assert await stderr_of(server, 2) == b"oops 2\n"

    play(kind, root, scene)


def test_a_folder_that_does_not_exist_fails_the_start(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit("echo ran > ran", chdir=str(root), output="none/%j.out")
        ended = await server.ended()
        assert (ended.how, ended.code, ended.why) == ("failed", 126, "bad-output")
        assert f"there is no directory '{root}/none'" in ended.detail
        assert not (root / "ran").exists()

    play(kind, root, scene)


def test_a_named_pipe_is_refused_instead_of_waited_for(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        os.mkfifo(root / "pipe")
        await server.submit("exit 0", chdir=str(root), output="pipe")
        assert (await server.ended()).why == "bad-output"

    play(kind, root, scene)


def test_output_may_be_thrown_away(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit("echo nothing", output="/dev/null")
        assert (await server.ended()).how == "done"
        assert await server.log() == b""

    play(kind, root, scene)


@pytest.mark.parametrize("stream", [1, 2])
def test_a_gpu_that_is_out_of_memory_is_recognised_in_both_files(kind: Kind, root: Path, stream: int) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit(f"echo CUDA out of memory >&{stream}; exit 1", chdir=str(root), output="o", error="e")
        assert (await server.ended()).why == "oom"

    play(kind, root, scene)


def test_the_words_of_an_earlier_run_do_not_count(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        script = f"[ $WEFT_RUN = 2 ] || echo CUDA out of memory; {AGAIN}; exit 1"
        await server.submit(script, chdir=str(root), output="o")
        ended = await server.ended()
        assert (ended.run, ended.code, ended.why) == (2, 1, "")

    play(kind, root, scene)
