"""An agent with real processes, and a scheduler's end that the test speaks for."""

from __future__ import annotations

import asyncio
import io
import json
import os
import socket
import tarfile
from pathlib import Path
from typing import Any

import grpc
import pytest

from support.peers.fake_scheduler import Head, Site, head
from support.running.process_engine import until
from weft.access.wire.messages import Forget, GangMember, ReadLog, RunNews
from weft.errors import Refused
from weft.node.engine import lease

FOR_EVER = "trap '' TERM; echo up $$; while :; do sleep 0.1; done"


def run(scene: Any) -> None:
    asyncio.run(scene)


def record(site: Site, name: str, job: str = "1", number: int = 1, node: str = "n1") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((site.folder(node).jobs / job / str(number) / name).read_text().rstrip("\0"))
    return found


def log(site: Site, job: str = "1", number: int = 1) -> str:
    path = site.folder().jobs / job / str(number) / "output.log"
    return path.read_text() if path.exists() else ""


async def end(found: Head, job: str = "1", number: int = 1) -> None:
    found.stop(job, number, grace_s=0.0)
    await found.ended(job, number)


def test_a_job_starts_says_how_it_ends_and_is_told_apart_from_then_on(tmp_path: Path) -> None:
    async def scene() -> None:
        async with head(tmp_path) as site, site.working(site.worker()):
            await site.head.welcomed()
            hello = site.head.hellos()[0]
            assert (hello.node.id, len(hello.node.gpus), len(hello.runs)) == ("n1", 2, 0)
            beats = (each.heartbeat for each in site.head.heard if each.WhichOneof("is") == "heartbeat")
            await until(lambda: any(each.WhichOneof("is") == "heartbeat" for each in site.head.heard))
            assert next(beats).status.ram_used_mb, "the first heartbeat has the measurements of the node"
            site.head.start("sh", "-c", "echo on $WEFT_GPU_IDS; exit 3", gpus=[1])
            ended = await site.head.ended()
            assert (ended.end.code, ended.end.why) == (3, "")
            assert [news.phase for news in site.head.news()] == [RunNews.STARTED, RunNews.ENDED]
            assert log(site) == "on 1\n"
            await until((site.folder().jobs / "1" / "1" / "told").exists)
            assert site.notes[0].kind == "connected"

    run(scene())


def test_the_environment_is_the_submitters_and_what_is_missing_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("HOME", "/of/worker"), ("MY_TOKEN", "secret"), ("SHELL", "/bin/worker")):
        monkeypatch.setenv(name, value)

    async def scene() -> None:
        async with head(tmp_path) as site, site.working(site.worker()):
            await site.head.welcomed()
            site.head.start("env", env={"HOME": "/of/submitter", "LR": "0.1"})
            await site.head.ended()
            env = dict(line.split("=", 1) for line in log(site).splitlines())
            assert (env["HOME"], env["LR"], env["SHELL"]) == ("/of/submitter", "0.1", "/bin/worker")
            assert "MY_TOKEN" not in env

    run(scene())


async def obeyed(site: Site) -> None:
    """Wait for the end of another run: by then, the agent has carried out every earlier order."""
    site.head.start("true", job="last")
    await site.head.ended("last")


@pytest.mark.parametrize(
    ("order", "code", "why"),
    [
        ({"chdir": "/no/such/folder"}, 126, "bad-directory"),
        ({"gpus": [7]}, None, "start-failed"),
        ({"snapshot": "0" * 64}, None, "snapshot"),
        ({"snapshot": "../../etc"}, None, "snapshot"),
    ],
)
def test_what_cannot_be_started_says_why(tmp_path: Path, order: dict[str, Any], code: int | None, why: str) -> None:
    async def scene() -> None:
        async with head(tmp_path) as site, site.working(site.worker()):
            await site.head.welcomed()
            site.head.start("true", **order)
            ended = await site.head.ended()
            assert ended.end.why == why
            assert (ended.end.code if ended.end.HasField("code") else None) == code
            assert ended.end.detail
            site.head.start("true")  # a late order of the same run starts nothing
            await obeyed(site)
            assert log(site) in ("", f"weft: {ended.end.detail}\n")

    run(scene())


def packed(**files: str) -> bytes:
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name.replace("__", "/"))
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return found.getvalue()


def test_a_snapshot_is_fetched_by_its_hash_and_worked_in(tmp_path: Path) -> None:
    async def scene() -> None:
        async with head(tmp_path) as site, site.working(site.worker()):
            await site.head.welcomed()
            name = site.head.blob(packed(hello="world\n", sub__deep="down\n") + os.urandom(3000))
            site.head.start("cat", "hello", snapshot=name)
            site.head.start("cat", "deep", job="2", snapshot=name, chdir="sub")
            await site.head.ended()
            await site.head.ended("2")
            assert (log(site), log(site, "2")) == ("world\n", "down\n")

    run(scene())


def test_a_snapshot_that_leaves_its_tree_is_refused(tmp_path: Path) -> None:
    async def scene() -> None:
        async with head(tmp_path) as site, site.working(site.worker()):
            await site.head.welcomed()
            evil = io.BytesIO()
            with tarfile.open(fileobj=evil, mode="w") as tar:
                link = tarfile.TarInfo("link")
                link.type, link.linkname = tarfile.SYMTYPE, "../../../.."
                tar.addfile(link)
            site.head.start("true", snapshot=site.head.blob(evil.getvalue()))
            site.head.start("true", job="2", snapshot=site.head.blob(b"this is no tar file"))
            for job, word in (("1", "forbidden"), ("2", "not a tar file")):
                ended = await site.head.ended(job)
                assert ended.end.why == "snapshot"
                assert word in ended.end.detail

    run(scene())


def test_stopping_lets_it_save_and_what_was_never_ordered_is_fenced(tmp_path: Path) -> None:
    async def scene() -> None:
        async with head(tmp_path) as site, site.working(site.worker()):
            await site.head.welcomed()
            site.head.start("sh", "-c", "trap 'echo saved; exit 85' TERM; echo up; while :; do sleep 0.05; done")
            await until(lambda: "up" in log(site))
            site.head.stop(why="preempted")
            ended = await site.head.ended()
            assert (ended.end.code, ended.end.why) == (85, "preempted")
            assert log(site) == "up\nsaved\n"
            site.head.stop("9", 4)
            assert (await site.head.ended("9", 4)).end.why == "never-started"
            site.head.start("touch", str(tmp_path / "ran"), job="9", run=4)
            await obeyed(site)
            assert not (tmp_path / "ran").exists()

    run(scene())


def test_an_agent_that_comes_back_finds_its_runs(tmp_path: Path) -> None:
    async def scene() -> None:
        async with head(tmp_path, confirms=False) as site:
            async with site.working(site.worker()):
                await site.head.welcomed()
                site.head.start("sh", "-c", FOR_EVER)
                site.head.start("sh", "-c", "exit 4", job="2")
                await until(lambda: "up" in log(site))
                await site.head.ended("2")
            leader = record(site, "started.json")["leader"]
            site.head.confirms = True
            async with site.working(site.worker()):
                await site.head.welcomed(2)
                runs = {(each.job, each.run): each for each in site.head.hellos()[1].runs}
                assert runs["1", 1].phase == RunNews.STARTED
                assert (runs["2", 1].phase, runs["2", 1].end.code) == (RunNews.ENDED, 4)
                site.head.start("sh", "-c", "echo twice")  # the same run, ordered again
                await obeyed(site)
                assert record(site, "started.json")["leader"] == leader
                await end(site.head)
            assert "twice" not in log(site)

    run(scene())


def test_a_cut_is_mended_and_what_ended_meanwhile_is_said(tmp_path: Path) -> None:
    async def scene() -> None:
        async with head(tmp_path) as site, site.working(site.worker()):
            await site.head.welcomed()
            site.head.start("sh", "-c", f"while ! [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 6")
            await site.head.started()
            await site.head.close()
            await until(lambda: any(note.kind == "disconnected" for note in site.notes))
            (tmp_path / "go").touch()
            await until(lambda: (site.folder().jobs / "1" / "1" / "exit.json").exists())
            await site.head.open()
            await site.head.welcomed(2)
            (said,) = site.head.hellos()[1].runs
            assert (said.phase, said.end.code) == (RunNews.ENDED, 6)

    run(scene())


def test_runs_end_by_themselves_when_nobody_answers_for_the_lease(tmp_path: Path) -> None:
    async def scene() -> None:
        async with head(tmp_path, lease_s=2.0) as site, site.working(site.worker()):
            await site.head.welcomed()
            site.head.start("sh", "-c", FOR_EVER)
            await until(lambda: "up" in log(site))
            lent = lease.read(site.folder().lease)
            await until(lambda: lease.read(site.folder().lease) > lent)  # while it is answered, it is prolonged
            site.head.answers = False
            ended = await site.head.ended()
            assert (ended.end.why, ended.end.signal) == (lease.ENDED, 9)

    run(scene())


def test_logs_are_read_in_parts_and_their_end_is_sent_now_and_then(tmp_path: Path) -> None:
    async def scene() -> None:
        async with head(tmp_path) as site, site.working(site.worker()):
            await site.head.welcomed()
            site.head.start("sh", "-c", "seq 100000")
            await site.head.ended()
            text, offset = b"", 0
            for number in range(1, 20):
                site.head.say(read=ReadLog(id=number, job="1", run=1, offset=offset))
                await until(lambda number=number: len(site.head.all("log")) == number)  # type: ignore[misc]
                part = site.head.all("log")[-1]
                assert (part.id, part.offset) == (number, offset)
                text, offset = text + part.text, offset + len(part.text)
                if part.end:
                    break
            assert text.decode().split() == [str(each) for each in range(1, 100001)]
            assert len(site.head.all("log")) > 5
            (tail,) = site.head.all("tail")
            assert text.endswith(tail.text)
            assert tail.offset + len(tail.text) == len(text)
            for job, number in (("1", 7), ("../../etc", 1)):
                site.head.say(read=ReadLog(id=50, job=job, run=number))
            await until(lambda: sum(part.id == 50 for part in site.head.all("log")) == 2)
            assert all(part.missing for part in site.head.all("log") if part.id == 50)

    run(scene())


def test_progress_is_handed_on_at_most_once_a_second_and_the_last_of_it_always(tmp_path: Path) -> None:
    script = (
        "import json, os, socket, time\n"
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.connect(os.environ['WEFT_SOCKET'])\n"
        "for step in range(1, 31):\n"
        "    s.send(json.dumps({'job': '1', 'run': 1, 'step': step, 'total': 30}).encode()); time.sleep(0.05)\n"
        "s.send(json.dumps({'job': 'not mine', 'run': 1, 'step': 1}).encode())\n"
    )

    async def scene() -> None:
        from support.peers.fake_scheduler import PYTHON

        async with head(tmp_path) as site, site.working(site.worker()):
            await site.head.welcomed()
            site.head.start(PYTHON, "-S", "-c", script)
            await site.head.ended()
            said = [json.loads(each.json) for each in site.head.all("progress")]
            assert [each["step"] for each in said] == sorted({each["step"] for each in said})
            assert said[-1]["step"] == 30
            assert 1 <= len(said) <= 6
            kinds = [message.WhichOneof("is") for message in site.head.heard]
            assert max(at for at, kind in enumerate(kinds) if kind == "progress") < max(
                at for at, kind in enumerate(kinds) if kind == "news"
            )

    run(scene())


def test_folders_are_forgotten_but_not_those_of_runs_that_are_there(tmp_path: Path) -> None:
    async def scene() -> None:
        async with head(tmp_path) as site, site.working(site.worker()):
            await site.head.welcomed()
            site.head.start("true")
            await site.head.ended()
            site.head.start("sh", "-c", FOR_EVER, job="2")
            await until(lambda: "up" in log(site, "2"))
            site.head.say(forget=Forget(jobs=["1", "2", "..", "no such"]))
            await until(lambda: not (site.folder().jobs / "1").exists())
            assert (site.folder().jobs / "2").exists()
            await end(site.head, "2")

    run(scene())


def test_a_port_that_is_taken_keeps_the_gang_from_starting(tmp_path: Path) -> None:
    async def scene() -> None:
        from weft.node.engine.rendezvous import rendezvous_port

        gang = [GangMember(node=name, address="127.0.0.1", gpus=1) for name in ("n1", "n2")]
        with socket.create_server(("127.0.0.1", rendezvous_port("1", 1))):
            async with head(tmp_path) as site, site.working(site.worker()):
                await site.head.welcomed()
                site.head.start("echo", "never", gang=gang, gpus=[0])
                assert (await site.head.ended()).end.why == "port-taken"
                site.head.start("sh", "-c", "echo $RANK $MASTER_PORT", gang=gang, gpus=[0], run=2)
                assert (await site.head.ended(run=2)).end.code == 0
                assert log(site, number=2) == f"0 {rendezvous_port('1', 2)}\n"

    run(scene())


def test_gpus_that_change_while_runs_are_on_them_stay_as_they_were(tmp_path: Path) -> None:
    async def scene() -> None:
        async with head(tmp_path) as site:
            async with site.working(site.worker(gpus=2)):
                await site.head.welcomed()
                site.head.start("sh", "-c", FOR_EVER, gpus=[1])
                await until(lambda: "up" in log(site))
            async with site.working(site.worker(gpus=4)):
                await site.head.welcomed(2)
                await end(site.head)
                await until((site.folder().jobs / "1" / "1" / "told").exists)
            async with site.working(site.worker(gpus=4)):
                await site.head.welcomed(3)
            assert [len(hello.node.gpus) for hello in site.head.hellos()] == [2, 2, 4]

    run(scene())


def test_a_second_worker_of_the_same_name_is_refused(tmp_path: Path) -> None:
    folder = Site(tmp_path, Head()).folder()
    handle = folder.lock()
    with pytest.raises(Refused, match="is already running here") as refused:
        folder.lock()
    assert str(os.getpid()) in str(refused.value)
    os.close(handle)
    os.close(folder.lock())


def test_one_that_is_refused_says_why_and_stays_only_if_it_has_runs(tmp_path: Path) -> None:
    async def scene() -> None:
        async with head(tmp_path) as site:
            site.head.refusal = (grpc.StatusCode.FAILED_PRECONDITION, "bring both to the same version")
            alone = site.worker("n2")
            await alone.open()
            with pytest.raises(Refused, match="the same version"):
                await alone.serve()
            await alone.close()
            site.head.refusal = None
            async with site.working(site.worker()):
                await site.head.welcomed()
                site.head.start("sh", "-c", FOR_EVER)
                await until(lambda: "up" in log(site))
                site.head.refusal = (grpc.StatusCode.FAILED_PRECONDITION, "not now")
                await site.head.cut()
                await until(lambda: sum(note.kind == "refused" for note in site.notes) > 2)
                site.head.refusal = None
                await site.head.welcomed(2)
                await end(site.head)

    run(scene())


def test_runs_of_another_cluster_are_put_aside(tmp_path: Path) -> None:
    async def scene() -> None:
        async with head(tmp_path) as site:
            for cluster, words in (("a", "one"), ("b", "two"), ("a", "three")):
                site.head.cluster, before = cluster, site.head.epoch
                site.head.heard.clear()
                async with site.working(site.worker()):
                    await site.head.welcomed(before + 1)
                    run_ = 2 if words == "three" else 1
                    site.head.start("echo", words, run=run_)
                    await site.head.ended(run=run_)
                    assert log(site, number=run_) == f"{words}\n"
                    await until((site.folder().jobs / "1" / str(run_) / "told").exists)
            assert log(site, number=1) == "one\n"

    run(scene())


def test_a_checkpoint_of_another_node_is_put_where_the_job_looks(tmp_path: Path) -> None:
    async def scene() -> None:
        async with head(tmp_path) as site, site.working(site.worker()):
            await site.head.welcomed()
            for number, time, expected in ((2, 10.0, 10.0), (3, 5.0, 10.0), (4, 20.0, 20.0)):
                told = json.dumps({"path": "/shared/ckpt", "step": 7, "time": time})
                site.head.start("sh", "-c", "cat $WEFT_CKPT_DIR/latest.json", run=number, checkpoint=told)
                await site.head.ended(run=number)
                assert json.loads(log(site, number=number))["time"] == expected

    run(scene())


def test_what_is_on_its_gpus_is_said_with_hello_and_with_beats(tmp_path: Path) -> None:
    async def scene() -> None:
        from weft.node.engine.gpu.nvml_fake import FakeNvml

        driver = tmp_path / "driver.json"
        devices: list[dict[str, Any]] = [
            {"uuid": f"GPU-{index}", "model": "RTX3090", "memory_mb": 24576} for index in range(2)
        ]
        stranger = {"pid": 1, "name": "notebook", "used_mb": 2000}
        devices[1] |= {"used_mb": 2000, "utilisation": 40, "processes": [stranger]}
        driver.write_text(json.dumps({"devices": devices}))
        async with head(tmp_path) as site, site.working(site.worker(nvml=FakeNvml(str(driver)))):
            await site.head.welcomed()
            hello = site.head.hellos()[0]
            assert [gpu.uuid for gpu in hello.node.gpus] == ["GPU-0", "GPU-1"]
            assert [(block.gpu, block.why) for block in hello.blocks] == [(1, "ForeignProcess")]
            assert "notebook" in hello.blocks[0].detail
            await until(lambda: any(heartbeat.status.readings for heartbeat in site.head.all("heartbeat")))
            heartbeat = next(heartbeat for heartbeat in site.head.all("heartbeat") if heartbeat.status.readings)
            assert [(each.used_mb, each.utilisation, each.processes) for each in heartbeat.status.readings] == [
                (0, 0, 0), (2000, 40, 1),
            ]  # fmt: skip
            assert heartbeat.status.ram_used_mb > 0
            devices[0] |= {"used_mb": 900, "processes": [stranger | {"used_mb": 900}]}
            driver.write_text(json.dumps({"devices": devices}))
            await until(lambda: any(len(news.blocks) == 2 for news in site.head.all("gpus")))

    run(scene())
