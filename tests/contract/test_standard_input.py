"""The standard input of a run, on every backend."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from support.running.backend_servers import KINDS, BackendServer, Kind, play
from weft.access.endpoints.blob_folder import store_blob

pytestmark = pytest.mark.parametrize("kind", KINDS)
CONTENT = b"line %07d of the input\n"


@pytest.fixture
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("i")  # short: sockets are in it


def stored(server: BackendServer, content: bytes) -> str:
    name = sha256(content).hexdigest()
    store_blob(server.controller.paths.blobs, name, content)
    return name


def test_a_run_reads_what_was_stored_for_it(kind: Kind, root: Path) -> None:
    content = b"".join(CONTENT % number for number in range(40_000))

    async def scene(server: BackendServer) -> None:
        await server.submit(f"cat > {root}/got", stdin=stored(server, content))
        assert (await server.ended()).how == "done"
        assert (root / "got").read_bytes() == content

    play(kind, root, scene)


def test_every_run_of_a_job_reads_it_from_the_start(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit("cat; [ $WEFT_RUN = 2 ] || exit 85", stdin=stored(server, b"data\n"))
        await server.ended()
        assert [await server.log(run=run) for run in (1, 2)] == [b"data\n", b"data\n"]

    play(kind, root, scene)


def test_without_it_there_is_nothing_to_read(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit("readlink /proc/self/fd/0; cat")
        await server.ended()
        assert await server.log() == b"/dev/null\n"

    play(kind, root, scene)


def test_a_run_whose_input_is_gone_fails_and_says_so(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit("cat", stdin="0" * 64)
        ended = await server.ended()
        assert (ended.how, ended.why) == ("failed", "bad-input")
        assert "submit the job again" in ended.detail

    play(kind, root, scene)
