"""`weft worker` as a process: what it says, what it refuses, and that its jobs outlive it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from support.peers.fake_scheduler import Head, head
from support.plain_env import plain_env
from support.running.process_engine import until
from weft.access.wire.messages import RunNews

FOR_EVER = "echo up; while :; do sleep 0.1; done"


def env(root: Path) -> dict[str, str]:
    keep = plain_env()
    made = {"XDG_STATE_HOME": f"{root}/s", "XDG_RUNTIME_DIR": f"{root}/r", "XDG_CONFIG_HOME": f"{root}/c"}
    return {**keep, **made, "HOME": str(root)}


def admit(root: Path, found: Head) -> None:
    """The token that a scheduler of the same user leaves there."""
    folder = root / "s" / "weft" / "servers" / str(found.port)
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    (folder / "token").write_text("weft-token\n")
    (folder / "token").chmod(0o600)


@contextmanager
def worker(root: Path, found: Head, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "weft", "worker", "--scheduler", f"127.0.0.1:{found.port}", *words]
    process = subprocess.Popen(
        command, env=env(root), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def refused(root: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "weft", "worker", *words], env=env(root), capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--gpus", "0,1", "--models", "A"), 2, "models: 1 for 2 GPUs"),
        (("--gpus", "0,1", "--memories", "1,2,3"), 2, "memories: 3 for 2 GPUs"),
        (("--models", "A"), 2, "without GPUs"),
        (("--gpus", "0,0"), 2, "named twice"),
        (("--gpus", "0", "--memories", "-5"), 2, "-5"),
        (("--gpus", "0", "--id", "../x"), 2, "invalid worker name"),
        (("--gpus", "0", "--addr", "a b"), 2, "--addr"),
        (("--gpus", "0", "--addr", "a:70000"), 2, "--addr"),
        (("--gpus", "0", "--labels", "rack"), 2, "--labels"),
        (("--gpus", "0", "--mem", "lots"), 2, "--mem"),
        (("--gpus", "0", "--cpus", "-1"), 2, "--cpus"),
        (("--stop", "1:2", "--id", "n1"), 2, "--stop"),
        (("--stop", "--id", "n1"), 3, "no worker called n1 runs here"),
        (("--stop", "--background"), 2, "not allowed with"),
        (("--gpus", "0", "--scheduler", "no port:here"), 2, "not a scheduler address"),
        (("--gpus", "0", "--scheduler", "192.0.2.1:50051"), 5, "weft auth join"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, words: tuple[str, ...], code: int, says: str) -> None:
    found = refused(tmp_path, *words)
    assert found[0] == code
    assert says in found[1]


def test_it_joins_says_who_it_is_and_leaves_its_jobs_alone(tmp_path: Path) -> None:
    async def scene() -> None:
        async with head(tmp_path) as site:
            admit(tmp_path, site.head)
            lists = ("--gpus", "2,5", "--models", "RTX3090,RTX3090", "--memories", "24576,24576")
            name = ("--id", "n1", "--labels", "rack=3,room=east", "--color", "always", "--keep-jobs")
            with worker(tmp_path, site.head, *lists, *name) as process:
                await site.head.welcomed()
                node = site.head.hellos()[0].node
                assert [(gpu.index, gpu.model, gpu.memory_mb) for gpu in node.gpus] == [
                    (2, "RTX3090", 24576), (5, "RTX3090", 24576),
                ]  # fmt: skip
                assert {label.name: label.value for label in node.labels} == {
                    "rack": "3", "room": "east", "containers": "yes",
                }  # fmt: skip
                assert (node.id, node.address, node.port) == ("n1", "localhost", 0)
                assert await asyncio.to_thread(refused, tmp_path, "--gpus", "0", "--id", "n1") == (
                    6, f"weft: error: a worker named n1 is already running here (pid {process.pid})\n"
                    "  stop it, or give this one another --id\n",
                )  # fmt: skip
                site.head.start("sh", "-c", FOR_EVER)
                await site.head.started()
                process.send_signal(signal.SIGTERM)
                out, err = await asyncio.to_thread(process.communicate, timeout=30)
                assert (process.returncode, err) == (0, "")
                assert "2 x RTX3090 24 GB" in out
                assert "joined" in out
                assert "1 run still running" in out
            started = tmp_path / "s" / "weft" / "workers" / "n1" / "jobs" / "1" / "1" / "started.json"
            leader = json.loads(started.read_text().rstrip("\0"))["leader"]
            for epoch, number in ((2, signal.SIGKILL), (3, signal.SIGTERM)):
                with worker(tmp_path, site.head, *lists, "--id", "n1") as process:
                    await site.head.welcomed(epoch)
                    (known,) = site.head.hellos()[-1].runs
                    assert known.phase == RunNews.STARTED
                    assert json.loads(started.read_text().rstrip("\0"))["leader"] == leader
                    if epoch == 3:
                        site.head.stop(grace_s=0.0)
                        assert (await site.head.ended()).end.why == "cancelled"
                        await until(started.with_name("told").exists)
                    process.send_signal(number)
                    out, err = await asyncio.to_thread(process.communicate, timeout=30)
                    assert (str(started.parents[3] / "worker.log") in out, err) == (True, "")
                    # it may be killed after the scheduler welcomed it, before it says so
                    assert number == signal.SIGKILL or "joined" in out

    asyncio.run(scene())


def called(root: Path, found: Head, *words: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "weft", "worker", "--scheduler", f"127.0.0.1:{found.port}", *words]
    done = subprocess.run(command, env=env(root), capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def test_in_the_background_it_returns_when_it_has_joined_and_that_very_one_is_ended(tmp_path: Path) -> None:
    declared = ("--id", "n1", "--gpus", "0,1", "--cpus", "0", "--mem", "64G", "--switch", "rack3", "--pretend")
    elsewhere = ("--folder", str(tmp_path / "there"))

    async def scene() -> None:
        async with head(tmp_path) as site:
            admit(tmp_path, site.head)
            code, out, err = await asyncio.to_thread(
                called, tmp_path, site.head, *declared, *elsewhere, "--background", "--json"
            )
            assert (code, err) == (0, "")
            node = site.head.hellos()[0].node
            assert (node.cpus, node.ram_mb, node.switch, len(node.gpus)) == (0, 65536, "rack3", 2)
            said = json.loads(out)
            assert said["folder"] == str(tmp_path / "there")
            boot, pid, start = said["process"].split(":")
            assert os.getsid(int(pid)) == int(pid), "it has a session of its own"
            stop = ("--id", "n1", *elsewhere, "--json", "--stop")
            other = f"{boot}:{pid}:{int(start) + 1}"
            for which, ended in ((other, False), (said["process"], True), (said["process"], False)):
                code, out, err = await asyncio.to_thread(called, tmp_path, site.head, *stop, which)
                assert (code, json.loads(out)["ended"]) == (0, ended), err
            await until(lambda: not Path(f"/proc/{pid}").exists())

    asyncio.run(scene())


def test_in_the_background_too_it_says_why_it_was_not_taken(tmp_path: Path) -> None:
    async def scene() -> None:
        async with head(tmp_path) as site:
            admit(tmp_path, site.head)
            site.head.refusal = (grpc.StatusCode.FAILED_PRECONDITION, "an older Weft\n  bring it up to date")
            code, out, err = await asyncio.to_thread(
                called, tmp_path, site.head, "--id", "n1", "--gpus", "none", "--background"
            )
            assert (code, out) == (6, "")
            assert "an older Weft" in err

    asyncio.run(scene())
