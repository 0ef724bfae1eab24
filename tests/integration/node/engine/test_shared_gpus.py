"""The shared GPU ledger: schedulers of two users on one machine never give out the same GPU."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.running.local_scheduler import Site, is_alive, site, until
from support.running.other_users import User, users
from weft.access.client import Client
from weft.errors import InputError
from weft.node.engine.gpu import locks
from weft.node.engine.gpu.ledger_folder import check_folder, prepare_folder
from weft.views.answers.nodes import GpuView

JOBS = 120
ON_ITS_GPU = """#!/bin/sh
taken=%s/$CUDA_VISIBLE_DEVICES
mkdir $taken || exit 3
sleep 0.02
rmdir $taken
"""
SOMEONE = locks.scheduler_key(4242, "/elsewhere")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for locks, as an administrator makes it."""
    root = Path(tempfile.mkdtemp(prefix="weft-l-"))
    root.chmod(0o755)
    (root / "gpus").mkdir()
    (root / "gpus").chmod(0o1777)
    yield root / "gpus"
    shutil.rmtree(root)


@contextmanager
def scheduler(folder: Path, gpus: str = "0", **settings: object) -> Iterator[tuple[Site, Client]]:
    with site({"gpus": gpus, "min_run_s": 0, "shared": str(folder), **settings}) as here, here.client() as client:
        yield here, client


def locks_in(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.glob("*.lock"))]


def is_held(folder: Path) -> bool:
    return any(locks.find_other_holder(path, SOMEONE) for path in locks_in(folder))


def gpu(client: Client, at: int = 0) -> GpuView:
    return client.gpus().gpus[at]


def status(client: Client, job: str) -> str:
    return str(client.jobs([job]).jobs[0].status)


def record(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes().rstrip(b"\0"))
    return found


def ending(run: Path) -> str:
    """Why a run ended."""
    return str(record(run / "exit.json")["why"])


def test_two_users_with_many_short_jobs_never_share_a_gpu() -> None:
    with users(2) as (root, (first, second)):
        busy = root / "busy"
        busy.mkdir()
        busy.chmod(0o1777)
        script = root / "job.sh"
        script.write_text(ON_ITS_GPU % busy)
        script.chmod(0o755)
        shared = shared_by_all(root)

        def work(user: User) -> Counter[tuple[str, int]]:
            user.weft("up", "--gpus", "0,1,2,3", "--shared", str(shared))
            user.weft("submit", "--gpus", "1", "--array", f"1-{JOBS}", "--", str(script))
            user.weft("wait", "1")
            rows = user.json("history", "--limit", "1000")["jobs"]
            for row in rows:  # a job that ran again had lost a race, and nothing else
                ends = [
                    ending(user.root / "s" / "weft" / "jobs" / row["id"] / str(run)) for run in range(1, row["run"])
                ]
                assert set(ends) <= {"gpu-taken"}
            return Counter((row["status"], row["exit_code"]) for row in rows)

        with ThreadPoolExecutor(2) as threads:
            assert list(threads.map(work, (first, second))) == [{("done", 0): JOBS}] * 2


def shared_by_all(root: Path) -> Path:
    """Create a folder for locks, as an administrator does."""
    folder = root / "gpus"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def test_the_gpu_of_a_killed_scheduler_is_free_for_another_user_when_its_job_has_ended() -> None:
    with users(2) as (root, (first, second)):
        shared, gate = shared_by_all(root), root / "gate"
        for user in (first, second):
            user.weft("up", "--gpus", "0", "--shared", str(shared))
        wait = f"while ! test -e {gate}; do sleep 0.05; done"
        first.weft("submit", "--name", "theirs", "--gpus", "1", "--", "sh", "-c", wait)
        until(lambda: [job["status"] for job in first.json("queue")["jobs"]] == ["running"])
        second.weft("submit", "--name", "mine", "--gpus", "1", "--", "true")
        until(lambda: f"held by {first.name} with job 'theirs'" in second.weft("why", "mine").stdout)
        pid = first.json("doctor")["pid"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_alive(pid))
        assert is_held(shared), "the job goes on without its scheduler, and keeps its GPU"
        gate.touch()
        second.weft("wait", "mine")
        assert second.json("show", "mine")["jobs"][0]["exit_code"] == 0
        assert not is_held(shared)
        assert "not running" in first.weft("doctor", code=None).stdout


@pytest.mark.parametrize("by_variable", [False, True], ids=["flag", "variable"])
def test_a_folder_that_cannot_be_shared_is_one_clear_error(folder: Path, by_variable: bool) -> None:
    _file(folder)
    (folder.parent / "open").mkdir()
    (folder.parent / "open").chmod(0o777)
    what = {
        folder.parent / "no" / "folder": "cannot create",
        folder.parent / "file": "is not a folder",
        folder.parent / "open": "users can remove each other's locks",
    }
    with site({"gpus": "0"}) as here:
        for path, problem in what.items():
            here.env["WEFT_SHARED"] = str(path) if by_variable else ""
            done = here.weft("up", *(() if by_variable else ("--shared", str(path))))
            (error, hint) = done.stderr.splitlines()
            assert (done.returncode, done.stdout) == (2, "")
            assert error.startswith("weft: error: --shared: ")
            assert problem in error
            assert hint.startswith("  ")
            assert not here.paths.answers(), "no scheduler was started"


def test_a_gpu_of_another_user_is_blocked_and_says_who_holds_it(folder: Path) -> None:
    with scheduler(folder, gpus="0,1") as (here, client):
        (zero, one) = until(lambda: len(found := locks_in(folder)) == 2 and found)
        held = locks.lock_gpus([zero], SOMEONE, "their training")
        until(lambda: gpu(client).blocked)
        job = here.submit(client, "true", gpus="2")
        until(lambda: "OtherUser" in [reason.code for reason in client.explain(job).reasons])
        (block,) = gpu(client).blocked
        assert block.detail.startswith("held by user 4242 with job 'their training' since 20")
        assert (block.reason, gpu(client, 1).blocked) == ("OtherUser", [])
        assert "their training" in here.weft("gpus").stdout
        assert "their training" in here.weft("why", job).stdout
        assert str(folder) in here.weft("doctor").stdout
        os.close(held[0])
        until(lambda: status(client, job) == "done")
        assert gpu(client).blocked == []
        assert stat.S_IMODE(os.stat(one).st_mode) == 0o666


def test_the_lock_of_a_run_outlives_its_scheduler_and_its_shim(folder: Path) -> None:
    with scheduler(folder) as (here, client):
        job = here.submit(client, "sleep", "600", gpus="1", name="long")
        until(lambda: status(client, job) == "running")
        assert is_held(folder)
        here.kill9()
        assert is_held(folder)
        shim = int(record(here.paths.jobs / job / "1" / "started.json")["shim"][1])
        os.kill(shim, signal.SIGKILL)
        until(lambda: not is_alive(shim))
        assert is_held(folder)
        with pytest.raises(locks.GpuTaken, match=r"held by .* with job 'long'"):
            locks.lock_gpus(locks_in(folder), SOMEONE, "")
        with here.client() as again:  # it kills what is left of the run, and runs the job again
            until(lambda: again.jobs([job]).jobs[0].run == 2 and status(again, job) == "running")
            again.change("cancel", [job])
            until(lambda: status(again, job) == "cancelled")
        until(lambda: not is_held(folder))


def test_jobs_of_one_scheduler_share_a_gpu_and_each_keeps_it_locked(folder: Path) -> None:
    with scheduler(folder) as (here, client):
        jobs = [here.submit(client, "sleep", "600", gpus="1", max_jobs_per_gpu="2") for _ in range(2)]
        until(lambda: [status(client, job) for job in jobs] == ["running", "running"])
        client.change("cancel", [jobs[0]])
        until(lambda: status(client, jobs[0]) == "cancelled")
        assert is_held(folder)
        client.change("cancel", [jobs[1]])
        until(lambda: status(client, jobs[1]) == "cancelled")
        assert not is_held(folder)


def test_a_start_that_loses_the_race_waits_and_spends_no_retry(folder: Path) -> None:
    with scheduler(folder) as (here, client):
        (path,) = until(lambda: locks_in(folder))
        runs = 1
        while runs == 1:  # until the lock is taken after a poll of the scheduler and before a start
            held = locks.lock_gpus([path], SOMEONE, "")
            job = here.submit(client, "true", gpus="1")
            until(lambda: gpu(client).blocked)
            os.close(held[0])
            client.wait(job)
            runs = client.jobs([job]).jobs[0].run
        assert ending(here.paths.jobs / job / "1") == "gpu-taken"
        assert client.jobs([job]).jobs[0].failures == 0


def test_a_run_that_is_older_than_the_ledger_is_locked_by_its_scheduler(folder: Path) -> None:
    with site({"gpus": "0", "min_run_s": 0}) as here:
        with here.client() as client:
            job = here.submit(client, "sleep", "600", gpus="1")
            until(lambda: status(client, job) == "running")
        here.weft("up", "--shared", str(folder), check=True)
        until(lambda: is_held(folder))
        with here.client() as client:
            assert status(client, job) == "running"
            client.change("cancel", [job])
            until(lambda: not is_held(folder))


def test_the_ledger_is_remembered_until_it_is_turned_off(folder: Path) -> None:
    with site({"gpus": "0"}, WEFT_SHARED=str(folder)) as here:
        here.weft("up", check=True)
        (path,) = until(lambda: locks_in(folder))
        held = locks.lock_gpus([path], SOMEONE, "")
        with here.client() as client:
            until(lambda: gpu(client).blocked)
        here.weft("down", check=True)
        assert f"GPUs are shared with other users through {folder}" in here.weft("up", check=True).stdout
        here.weft("up", "--shared", "off", check=True)
        with here.client() as client:
            until(lambda: not gpu(client).blocked)
        os.close(held[0])


def test_no_gpu_is_used_while_the_folder_is_not_safe(folder: Path) -> None:
    with scheduler(folder) as (here, client):
        folder.chmod(0o777)
        until(lambda: gpu(client).blocked)
        assert "users can remove each other's locks" in gpu(client).blocked[0].detail
        done = here.weft("doctor")
        assert (done.returncode, "no jobs start on GPUs: --shared: users can remove" in done.stdout) == (1, True)
        folder.chmod(0o1777)
        until(lambda: not gpu(client).blocked)


def test_a_file_that_is_no_lock_blocks_its_gpu_and_stays_as_it_is(folder: Path) -> None:
    mine = folder.parent / "mine"
    mine.write_text("precious")
    with scheduler(folder) as (_, client):
        (path,) = until(lambda: locks_in(folder))
        os.unlink(path)
        os.symlink(mine, path)
        until(lambda: "cannot open" in "".join(block.detail for block in gpu(client).blocked))
        assert mine.read_text() == "precious"


def test_folders_that_are_not_safe_are_refused(folder: Path) -> None:
    assert prepare_folder(str(folder)) is False
    for mode, what in ((0o777, "remove each other's locks"), (0o755, "no other user can write"), (0o770, "remove")):
        folder.chmod(mode)
        with pytest.raises(InputError, match=what):
            check_folder(str(folder))
    folder.chmod(0o1777)
    folder.parent.chmod(0o700)
    with pytest.raises(InputError, match="other users cannot reach"):
        prepare_folder(str(folder.parent / "new"))
    assert not (folder.parent / "new").exists()
    folder.parent.chmod(0o777)
    with pytest.raises(InputError, match="any user can replace"):
        check_folder(str(folder))
    folder.parent.chmod(0o755)
    assert prepare_folder(str(folder.parent / "new")) is True
    assert stat.S_IMODE((folder.parent / "new").stat().st_mode) == 0o1777
    with pytest.raises(InputError, match="is not a folder"):
        check_folder(str(_file(folder)))


def _file(folder: Path) -> Path:
    path = folder.parent / "file"
    path.write_text("")
    return path


def test_of_two_schedulers_that_want_the_same_gpus_exactly_one_gets_them(folder: Path) -> None:
    paths = [str(folder / f"gpu-{number}.lock") for number in range(4)]
    keys = [locks.scheduler_key(uid, "/s") for uid in (1, 2)]

    def attempt(key: int) -> int:
        wins = 0
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            try:
                held = locks.lock_gpus(paths[:: 1 if key == keys[0] else -1], key, "")
            except locks.GpuTaken:
                continue
            assert not any(locks.find_other_holder(path, key) for path in paths)
            wins += 1
            for handle in held:
                os.close(handle)
        return wins

    with ThreadPoolExecutor(2) as threads:
        assert sum(threads.map(attempt, keys)) > 10
