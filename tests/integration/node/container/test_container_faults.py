"""kill -9 of everything around a container of a real podman: nothing runs twice, and no container is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from support.peers.podman_store import IMAGE, PodmanStore, podman
from support.running.local_scheduler import Site, is_alive, site, until
from support.running.process_engine import Desk, desk
from support.running.process_engine import until as until_async
from weft.node.engine.container.record import ContainerRecord, read_record
from weft.node.engine.events import RunExited
from weft.node.engine.exit_rules import exit_event
from weft.node.engine.launch_spec import LaunchSpec

__all__ = ["podman"]
SCRIPT = "echo up >> starts; while :; do sleep 0.1; done"
LATE_S = 60.0


@pytest.fixture
def here(podman: PodmanStore, monkeypatch: pytest.MonkeyPatch) -> PodmanStore:
    for name, value in podman.env.items():
        monkeypatch.setenv(name, value)
    return podman


def contained(tmp_path: Path, script: str = SCRIPT) -> LaunchSpec:
    return LaunchSpec("1", 1, ("/bin/sh", "-c", script), image=IMAGE, chdir=str(tmp_path))


async def running(found: Desk) -> ContainerRecord:
    """Until the container runs its command."""
    folder = str(found.path("."))
    await until_async(lambda: (known := read_record(folder)) is not None and known.pid > 0, LATE_S)
    await until_async((found.folder / "starts").exists, LATE_S)
    known = read_record(folder)
    assert known is not None
    return known


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def supervisor_of(found: Desk) -> int:
    (report, *_) = found.reports
    assert not isinstance(report, RunExited)
    return report.leader.pid


def client_of(found: Desk, _known: ContainerRecord) -> int:
    (client,) = children(supervisor_of(found))
    return client


def conmon_of(_found: Desk, known: ContainerRecord) -> int:
    return int(Path(f"/proc/{known.pid}/stat").read_text().rpartition(")")[2].split()[1])


def shim_of(found: Desk, _known: ContainerRecord) -> int:
    (report, *_) = found.reports
    assert not isinstance(report, RunExited)
    return report.shim.pid


@pytest.mark.parametrize(
    ("victim", "how"),
    [
        (client_of, "lost"),
        pytest.param(conmon_of, "lost", marks=pytest.mark.soak),
        pytest.param(lambda found, _known: supervisor_of(found), "failed", marks=pytest.mark.soak),
        (shim_of, "lost"),
    ],
    ids=["podman", "conmon", "supervisor", "shim"],
)
def test_whatever_is_killed_no_container_is_left(
    here: PodmanStore, tmp_path: Path, victim: Callable[[Desk, ContainerRecord], int], how: str
) -> None:
    async def whole() -> None:
        async with desk(tmp_path) as found:
            found.engine.start(contained(tmp_path))
            known = await running(found)
            os.kill(victim(found, known), signal.SIGKILL)
            await until_async(lambda: bool(found.seen(RunExited)), LATE_S)
            (ended,) = found.seen(RunExited)
            assert exit_event(ended).how == how, ended
            assert not is_alive(known.pid), "the container outlives its run"
            assert here.containers() == []

    asyncio.run(whole())
    assert (tmp_path / "starts").read_text() == "up\n"


@pytest.mark.soak
def test_a_container_goes_with_its_shim_even_if_nothing_else_of_weft_is_left(here: PodmanStore, tmp_path: Path) -> None:
    async def whole() -> None:
        async with desk(tmp_path) as found:
            found.engine.start(contained(tmp_path))
            known = await running(found)
            starter, shim = found.engine.starter_pid, shim_of(found, known)
            assert starter is not None
            await found.engine.close()
            os.kill(shim, signal.SIGKILL)
            await until_async(lambda: not is_alive(known.pid) and here.containers() == [], LATE_S)
            await found.another().open()

    asyncio.run(whole())


def test_the_next_engine_removes_a_container_that_lost_everything(here: PodmanStore, tmp_path: Path) -> None:
    async def whole() -> None:
        async with desk(tmp_path) as found:
            found.engine.start(contained(tmp_path))
            known = await running(found)
            shim, supervisor, client = shim_of(found, known), supervisor_of(found), client_of(found, known)
            await found.engine.close()
            for pid in (supervisor, client, shim):
                os.kill(pid, signal.SIGKILL)
            assert is_alive(known.pid), "podman ended its container by itself"
            found.reports.clear()
            await found.another().open()
            await found.engine.adopt([("1", 1)])
            (ended,) = found.seen(RunExited)
            assert ended.why == "lost"
            assert not is_alive(known.pid)
            assert here.containers() == []

    asyncio.run(whole())


def test_a_run_outlives_its_scheduler_and_the_next_one_ends_it(here: PodmanStore) -> None:
    with site({"gpus": "0", "min_run_s": 0}, **here.env) as place:
        with place.client() as client:
            job = place.submit(client, "/bin/sh", "-c", SCRIPT, gpus="0", image=IMAGE, chdir=str(place.root))
            until((place.root / "starts").exists)
            known = until(lambda: (found := read_record(str(place.paths.jobs / job / "1"))) and found.pid and found)
        place.kill9()
        with place.client() as client:
            row = client.jobs([job]).jobs[0]
            assert (row.status, row.run) == ("running", 1)
            assert inside(place, job) == "1"
            place.weft("cancel", job, "--now", check=False)
            place.weft("cancel", job, check=False)
            until(lambda: client.jobs([job]).jobs[0].status == "cancelled")
        assert not is_alive(known.pid)
        assert here.containers() == []
        assert (place.root / "starts").read_text() == "up\n"


def inside(place: Site, job: str) -> str:
    """A variable and a file of the container, as `weft exec` sees them."""
    done = place.weft("exec", job, "--", "/bin/sh", "-c", "test -e /marker && echo $WEFT_RUN", check=True)
    return done.stdout.strip()


def test_a_program_that_only_the_container_has_runs(here: PodmanStore) -> None:
    with site({"gpus": "", "min_run_s": 0}, **here.env) as place:
        script = place.root / "train.sh"
        script.write_text("#!/bin/sh\necho from the image\n")
        script.chmod(0o755)
        words = ("run", "-q", "--gpus", "0", "--image", IMAGE, "--mount", f"{script}:/opt/train:ro", "--", "/opt/train")
        done = place.weft(*words)
        assert (done.returncode, done.stdout) == (0, "from the image\n"), done.stderr


def test_a_missing_image_is_one_clear_error_and_spends_no_retry(here: PodmanStore) -> None:
    with site({"gpus": "0", "min_run_s": 0}, **here.env) as place, place.client() as client:
        job = place.submit(client, "true", gpus="0", image="localhost/no-such-image:1", retries="5")
        until(lambda: client.jobs([job]).jobs[0].status == "failed")
        shown = json.loads(place.weft("show", job, "--json", check=True).stdout)["jobs"][0]
        assert (shown["run"], shown["failures"]) == (1, 0)
        text = place.weft("show", job, check=True).stdout
        assert "bad-image" in text
        assert "no-such-image" in text
        assert "no-such-image" in place.weft("why", job, check=True).stdout
