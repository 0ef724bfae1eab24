"""The contract of backends, tested on each of them with real processes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support.running.backend_servers import GPUS, KINDS, NODE, USED_MB, BackendServer, Kind, play
from support.running.process_engine import until
from weft.errors import JournalError, Refused
from weft.model import Continued, Started, Suspended
from weft.server.backends.base import Kill
from weft.views.answers.doctor import DeviceView

WAITING = "echo up $$; while [ ! -e {go} ]; do sleep 0.02; done; echo on; exit 3"
"""It ends with 3 once a file is there."""

pytestmark = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("b")  # short: sockets are in it


@pytest.mark.parametrize(("script", "status", "code"), [("exit 0", "done", 0), ("exit 7", "failed", 7)])
def test_it_starts_runs_and_reports_their_exit_code(
    kind: Kind, root: Path, script: str, status: str, code: int
) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit(script)
        ended = await server.ended()
        assert (server.job().status, ended.code, ended.run) == (status, code, 1)
        facts = list(server.controller.journal.read())
        assert [type(fact) for fact in facts if getattr(fact, "job", "") == "1"][-2:] == [Started, type(ended)]

    play(kind, root, scene)


def test_a_run_has_the_gpus_that_it_was_given(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit("echo gpu $WEFT_GPU_IDS")
        await server.ended()
        assert (await server.log()).decode() == f"gpu {GPUS[0]}\n"

    play(kind, root, scene)


def test_a_run_that_cannot_start_has_failed(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit("exit 0", chdir="/nowhere/at/all")
        ended = await server.ended()
        assert (ended.how, ended.code, ended.why) == ("failed", 126, "bad-directory")

    play(kind, root, scene)


def test_a_stop_leaves_a_run_its_grace(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit("trap 'sleep 0.3; echo saved; exit 0' TERM; echo up; sleep 60 & wait", grace_s=30.0)
        await server.says(b"up")
        await server.cancel()
        ended = await server.ended()
        assert (server.job().status, ended.code) == ("cancelled", 0)
        assert b"saved" in await server.log()

    play(kind, root, scene)


def test_a_run_that_does_not_stop_is_killed(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit("trap '' TERM; echo up; while :; do sleep 0.05; done", grace_s=0.2)
        await server.says(b"up")
        await server.cancel()
        ended = await server.ended()
        assert (ended.how, ended.code, ended.why) == ("stopped", 137, "cancelled")

    play(kind, root, scene)


def test_a_kill_does_not_wait_for_the_grace(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit("trap '' TERM; echo up; while :; do sleep 0.05; done", grace_s=600.0)
        await server.says(b"up")
        await server.cancel()
        asked = time.monotonic()
        server.controller.backend.execute(Kill("1", 1))
        assert (await server.ended()).code == 137
        assert time.monotonic() - asked < 30

    play(kind, root, scene)


def test_a_run_stands_still_while_it_is_suspended_also_across_a_restart(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit("echo $$.; while :; do :; done")
        leader = int((await server.says(b".")).split(b".")[0])

        def state() -> str:
            return Path(f"/proc/{leader}/stat").read_text().rpartition(")")[2].split()[0]

        await server.started()
        await server.tell(lambda now: Suspended(now, "1", 1))
        await until(lambda: state() == "T")
        await server.restart()
        assert (server.job().suspended, state()) == (True, "T")
        await server.tell(lambda now: Continued(now, "1", 1))
        await until(lambda: state() == "R")
        assert not server.exits()

    play(kind, root, scene)


def test_runs_are_found_again_after_a_restart(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit(WAITING.format(go=root / "go"))
        before = await server.says(b"up")
        await server.started()
        await server.restart()
        assert (server.job().status, server.job().run) == ("running", 1)
        (root / "go").touch()
        ended = await server.ended()
        assert (ended.code, ended.run, len(server.exits())) == (3, 1, 1)
        assert await server.log() == before + b"on\n"

    play(kind, root, scene)


def test_an_exit_that_nobody_saw_is_reported_after_a_restart(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        await server.submit(WAITING.format(go=root / "go"))
        await server.says(b"up")
        await server.started()

        async def meanwhile() -> None:
            (root / "go").touch()
            await until(lambda: bool(list(root.glob("*/jobs/1/1/exit.json"))))

        await server.restart(meanwhile)
        ended = await server.ended()
        assert (ended.code, ended.run, len(server.exits())) == (3, 1, 1)

    play(kind, root, scene)


def test_runs_go_on_when_the_state_goes_back_to_the_journal(kind: Kind, root: Path) -> None:
    """As after a full disk: what was concluded from lost events is forgotten, and everything is found again."""

    async def scene(server: BackendServer) -> None:
        await server.submit(WAITING.format(go=root / "go"))
        await server.says(b"up")
        await server.started()
        server.controller.loop.on_failure(JournalError("no space left"))
        assert server.job().status == "running"
        server.controller.loop.on_failure(JournalError("no space left"))  # still: it waits before it goes back again
        with pytest.raises(Refused, match="try again in 1 s"):
            await server.submit("true")
        (root / "go").touch()
        ended = await server.ended()
        assert (ended.code, ended.run, len(server.exits())) == (3, 1, 1)

    play(kind, root, scene)


def test_logs_are_read_in_parts(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        logs = server.controller.run_logs
        await server.submit("printf 'one\\ntwo\\nthree\\n'")
        await server.ended()
        assert await server.log() == b"one\ntwo\nthree\n"
        assert await server.log(offset=4) == b"two\nthree\n"
        assert await server.log(lines=1) == b"three\n"
        part = await logs.read(server.job(), 1, 0, 4, 0)
        assert part is not None
        assert (part.offset, part.size, part.missing) == (4, 14, False)
        await until(lambda: logs.tail("1", 1).endswith(b"three\n"))
        missing = await logs.read(server.job(), 9, 0, 0, 0)
        assert missing is not None
        assert missing.missing
        logs.forget(["1"])

    play(kind, root, scene)


def test_nodes_and_gpus_are_known(kind: Kind, root: Path) -> None:
    async def scene(server: BackendServer) -> None:
        inventory = server.controller.inventory
        (room,) = server.controller.scheduler.state.resources.nodes
        assert (room.node.id, [gpu.model for gpu in room.node.gpus]) == (NODE, ["RTX3090"] * 2)
        assert [inventory.numbers.number(NODE, gpu) for gpu in (0, 1)] == list(GPUS)
        await until(lambda: len(inventory.readings()) == 2)
        assert {reading.used_mb for reading in inventory.readings().values()} == {USED_MB}
        assert set(inventory.readings()) == {(NODE, 0), (NODE, 1)}
        assert set(inventory.nodes()) <= {NODE}
        summary = inventory.summary()
        assert list(summary.gpus) == [DeviceView("RTX3090", 24576)] * 2
        assert (summary.gpus_from, summary.driver) != ("", "")

    play(kind, root, scene)


def test_what_it_is_told_of_progress_reaches_the_scheduler(kind: Kind, root: Path) -> None:
    report = (
        "import json, os, socket; "
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); "
        "s.sendto(json.dumps({'job': '1', 'run': 1, 'step': 5, 'total': 9}).encode(), os.environ['WEFT_SOCKET'])"
    )

    async def scene(server: BackendServer) -> None:
        await server.submit(f'python3 -c "{report}"; sleep 60')
        await until(lambda: bool(server.controller.progress_of(server.job())), 30)
        found = server.controller.progress_of(server.job())
        assert found is not None
        assert (found.step, found.total) == (5, 9)

    play(kind, root, scene)
