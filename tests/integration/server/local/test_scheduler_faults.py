"""Faults around a scheduler: full disks, torn files, few descriptors, bursts, and the end of an idle scheduler."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.running.local_scheduler import Site, is_alive, site, until
from weft.access.jobspec.fields import spec_of
from weft.access.wire.messages import SubmitRequest, Variable
from weft.errors import Refused, WeftError
from weft.history.journal import open_journal
from weft.model import Exited

PATH = [Variable(name="PATH", value=os.environ["PATH"])]


@pytest.fixture
def here() -> Iterator[Site]:
    with site({"gpus": "0,1", "min_run_s": 0}) as made:
        yield made


def test_a_thousand_jobs_at_once_all_run(here: Site) -> None:
    with here.client() as client:
        spec = spec_of({"command": ["true"], "max_jobs_per_gpu": "8", "memory": "16"})
        ids = client.submit(SubmitRequest(jobs=[spec] * 1000, env=PATH))
        assert len(set(ids)) == 1000
        until(lambda: client.queue(limit=1).waiting + client.queue(limit=1).running == 0)
        history = client.history(limit=1000).jobs
        assert [job.status for job in history] == ["done"] * 1000


def test_no_tcp_port_is_open(here: Site) -> None:
    with here.client():
        pid = here.pid()
        inodes = {
            found[1]
            for fd in os.listdir(f"/proc/{pid}/fd")
            if (found := re.fullmatch(r"socket:\[(\d+)\]", _link(f"/proc/{pid}/fd/{fd}")))
        }
        for kind in ("tcp", "tcp6", "udp", "udp6"):
            lines = Path(f"/proc/{pid}/net/{kind}").read_text().splitlines()[1:]
            assert not {line.split()[9] for line in lines} & inodes, kind
        listening = Path(f"/proc/{pid}/net/unix").read_text()
        assert str(here.paths.socket) in listening
    for folder in (here.paths.state, here.paths.runtime, here.paths.jobs):
        assert folder.stat().st_mode & 0o077 == 0, folder
    for path in here.paths.state.rglob("*"):
        assert path.name == "settings.json" or path.stat().st_mode & 0o077 == 0, path


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def test_it_ends_by_itself_when_there_is_nothing_to_do() -> None:
    with site({"gpus": "0", "idle_s": 1.0}) as here:
        with here.client() as client:
            client.wait(here.submit(client, "true"))
            pid = here.pid()
        until(lambda: not is_alive(pid), 20.0)
        with here.client() as client:
            (found,) = client.jobs(["1"]).jobs
            assert found.status == "done"


def test_it_stays_while_something_runs() -> None:
    with site({"gpus": "0", "idle_s": 0.4}) as here:
        with here.client() as client:
            here.submit(client, "sleep", "1.2")  # three times as long as the scheduler may be idle
            pid = here.pid()
        until(lambda: not is_alive(pid), 20.0)
        with open_journal(here.paths.journal_url) as journal:  # as the scheduler left it
            assert [fact.code for fact in journal.read() if isinstance(fact, Exited)] == [0]


def test_few_file_descriptors_are_enough(here: Site) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    try:
        with here.client() as client:
            spec = spec_of({"command": ["sleep", "0.05"], "gpus": "0"})
            ids = client.submit(SubmitRequest(jobs=[spec] * 200, env=PATH))
            assert [client.wait(job).exit_code for job in ids] == [0] * 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_two_that_start_it_at_once_get_the_same_one(here: Site) -> None:
    first, second = (
        subprocess.Popen(
            [sys.executable, "-m", "weft", "submit", "--quiet", "--gpus", "0", "--", "true"],
            env=here.env, cwd=here.root, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    )  # fmt: skip
    ids = {process.communicate(timeout=60)[0].strip() for process in (first, second)}
    assert ids == {"1", "2"}
    with here.client() as client:
        assert client.wait("1").exit_code == client.wait("2").exit_code == 0


# ---- full disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MB, which is soon full."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk]).returncode:
        if os.environ.get("CI"):
            pytest.fail("a small tmpfs cannot be mounted here")
        pytest.skip("only root can mount a small tmpfs")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_full_disk_loses_nothing(small_disk: Path) -> None:
    """Accepted jobs are kept, further ones are refused, and it continues when there is room again."""
    with site({"gpus": "0,1"}, XDG_STATE_HOME=str(small_disk)) as here, here.client() as client:
        slow = here.submit(client, "sh", "-c", "sleep 1; exit 7")
        until(lambda: client.jobs([slow]).jobs[0].status == "running")
        leader = json.loads((here.paths.jobs / slow / "1" / "started.json").read_bytes().rstrip(b"\0"))["leader"][1]
        _fill(small_disk)
        with pytest.raises(Refused, match="disk"):
            here.submit(client, "true")
        until(lambda: not is_alive(leader))
        (found,) = client.jobs([slow]).jobs
        assert found.exit_code in (None, 7)
        (small_disk / "filler").unlink()
        assert client.wait(slow).exit_code == 7
        assert client.wait(here.submit(client, "true")).exit_code == 0
        assert len(client.history().jobs) == 2


def test_a_wait_says_that_the_disk_is_full_and_the_run_counts_until_its_end(small_disk: Path) -> None:
    with site({"gpus": "0"}, XDG_STATE_HOME=str(small_disk)) as here, here.client() as client:
        notes: list[str] = []
        client.note = notes.append
        job = here.submit(client, "sleep", "1")
        until(lambda: client.jobs([job]).jobs[0].status == "running")
        _fill(small_disk)
        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(client.wait, job)
            until(lambda: notes)
            time.sleep(4.0)  # how long the disk is full
            assert len(notes) == 1
            assert "cannot record what happens" in notes[0]
            (small_disk / "filler").unlink()
            found = ended.result(60)
        assert found.exit_code == 0
        assert 1.0 <= found.time_s < 3.0
        assert found.runs is not None
        (run,) = found.runs
        assert run.ended is not None
        assert run.ended - run.started < 3.0


def _fill(disk: Path) -> None:
    with open(disk / "filler", "wb", buffering=0) as file:
        try:
            while file.write(b"x" * 65536):
                pass
        except OSError:
            pass
    for size in (4096, 512, 64, 1):
        with open(disk / "filler", "ab", buffering=0) as file:
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                pass


def test_a_state_it_cannot_read_is_an_error_that_names_it(here: Site) -> None:
    with here.client() as client:
        client.wait(here.submit(client, "true"))
    here.kill9()
    for name in ("state.db-wal", "state.db-shm"):
        (here.paths.state / name).unlink(missing_ok=True)
    Path(here.paths.journal_url).write_bytes(b"this is no database" * 1000)
    with pytest.raises(WeftError, match=r"did not start: .*state\.db.*not a database"), here.client():
        pass
    shutil.rmtree(here.paths.state)


def test_settings_it_cannot_read_are_an_error_that_names_them(here: Site) -> None:
    (here.paths.state / "settings.json").write_text("{")
    with pytest.raises(WeftError, match=r"did not start: .*settings\.json"), here.client():
        pass
    (here.paths.state / "settings.json").write_text(json.dumps({"gpus": "0"}))
