"""Trouble of the scheduler's own: policies that raise, GPUs that change under jobs, strangers at its socket."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.local_scheduler import Site, site, until
from weft.access.client import Client
from weft.access.endpoints.paths import Paths
from weft.access.jobspec.fields import spec_of
from weft.access.wire.messages import SubmitRequest, Variable
from weft.errors import NotFound, Refused, WeftError
from weft.history.journal.sqlite.compaction import compact
from weft.node.engine.output.logs import RUNS_KEPT
from weft.views.answers.operations import RESUME, SHUTDOWN

PATH = [Variable(name="PATH", value=os.environ["PATH"])]
MOODY = """
import os
from dataclasses import dataclass
from weft.scheduling.core.ports import Policy

@dataclass(frozen=True)
class Moody(Policy):
    def key(self, job, now):
        if os.path.exists({flag!r}):
            raise RuntimeError("not today")
        return job.seq
"""


@pytest.fixture
def here() -> Iterator[Site]:
    with site({"gpus": "0,1", "min_run_s": 0}) as made:
        yield made


SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
LOGINS = {
    "cron": {"LOGNAME": "ann", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"},
    "sudo": {"LOGNAME": "ann", "USER": "ann", "SUDO_USER": "bob", "SUDO_UID": "1001", "PATH": SYSTEM_PATH},
    "ssh": {
        "LOGNAME": "ann",
        "USER": "ann",
        "SSH_CONNECTION": "::1 1 ::1 22",
        "PATH": SYSTEM_PATH,
        "XDG_RUNTIME_DIR": "r2",
    },
}


@pytest.mark.parametrize("login", LOGINS)
def test_commands_find_the_scheduler_whatever_their_login(login: str) -> None:
    """cron and sudo have no XDG_RUNTIME_DIR, and that of ssh may be another."""
    root = Path(tempfile.mkdtemp(prefix="weft-l-"))  # the path of a socket is short
    own = {"HOME": str(root), "TMPDIR": str(root)}
    shell = Site(root, {**own, "PATH": SYSTEM_PATH, "XDG_RUNTIME_DIR": f"{root}/r1"})
    given = {name: f"{root}/{value}" if name == "XDG_RUNTIME_DIR" else value for name, value in LOGINS[login].items()}
    other = Site(root, {**own, **given}, shell.started)
    try:
        for first, second in ((shell, other), (other, shell)):
            job = first.weft("submit", "--quiet", "--hold", "--", "true", check=True).stdout.strip()
            assert second.weft("show", job, check=True).stdout
            second.weft("cancel", "-y", job, check=True)
            first.weft("down", check=True)
            shutil.rmtree(root / "r1", ignore_errors=True)  # as after a logout: the next one begins elsewhere
    finally:
        shell.close()
        shutil.rmtree(root, ignore_errors=True)


def test_what_comes_after_a_later_task_of_the_same_file_waits_for_it(here: Site) -> None:
    with here.client() as client:
        late = spec_of({"name": "late", "command": ["true"], "after": "#1"})
        first = spec_of({"name": "first", "command": ["sh", "-c", "sleep 0.3; exit 0"]})
        after, before = client.submit(SubmitRequest(jobs=[late, first], env=PATH))
        assert client.jobs([after]).jobs[0].status == "blocked"
        client.wait(after)
        ends = {job.id: job.ended or "" for job in client.history().jobs}
        assert ends[before] < ends[after]


def test_a_policy_that_raises_is_named_and_everything_else_goes_on(tmp_path: Path) -> None:
    flag, policy = tmp_path / "flag", tmp_path / "moody.py"
    policy.write_text(MOODY.format(flag=str(flag)))
    with site({"gpus": "0,1", "policy": f"{policy}:Moody"}) as here, here.client() as client:
        running = here.submit(client, "sleep", "60")
        until(lambda: client.jobs([running]).jobs[0].status == "running")
        flag.touch()
        waits = here.submit(client, "true")
        found = client.queue().paused_for["PolicyFailed"]
        assert "RuntimeError: not today" in found
        assert "moody.py" in found
        assert client.explain(waits).reasons[0].code == "PolicyFailed"
        client.change("cancel", [running])
        assert client.wait(running).status == "cancelled"
        with pytest.raises(Refused, match="still fails: RuntimeError: not today"):
            client.operate(RESUME)
        flag.unlink()
        client.operate(RESUME)
        assert client.wait(waits).exit_code == 0


def test_gpus_that_change_under_running_jobs_change_once_these_have_ended(here: Site) -> None:
    with here.client() as client:
        job = here.submit(client, "sleep", "60", gpu_ids="1")
        until(lambda: client.jobs([job]).jobs[0].status == "running")
        client.operate(SHUTDOWN)
    until(lambda: not here.paths.answers())
    here.settings(gpus="5", min_run_s=0)
    with here.client() as client:
        assert [row.gpu for row in client.gpus().gpus] == [0, 1]
        assert "restart after these jobs" in client.doctor().driver
        assert client.wait(here.submit(client, "true", gpu_ids="0")).exit_code == 0
        client.change("cancel", [job])
        client.wait(job)
        client.operate(SHUTDOWN)
    until(lambda: not here.paths.answers())
    with here.client() as client:
        assert [row.gpu for row in client.gpus().gpus] == [5]


def test_a_stranger_is_not_left_alone_with_the_first_job(tmp_path: Path) -> None:
    fake = tmp_path / "gpus.json"
    stranger = {"pid": 1, "name": "notebook", "used_mb": 20000}
    fake.write_text(json.dumps({"devices": [{"memory_mb": 24576, "processes": [stranger]}]}))
    with site({}, WEFT_NVML_FAKE=str(fake)) as here, here.client() as client:
        job = here.submit(client, "true")
        assert "ForeignProcess" in [reason.code for reason in client.explain(job).reasons]


def test_a_socket_that_somebody_else_could_have_put_there_is_not_trusted(tmp_path: Path) -> None:
    where = Paths(tmp_path / "state", tmp_path / "open" / "run")
    where.make()
    where.runtime.parent.chmod(0o777)
    with pytest.raises(WeftError, match="other users may write to"):
        Client(where)


def test_the_past_is_forgotten_in_time_and_its_folders_with_it() -> None:
    with site({"gpus": "0", "keep_s": 0.0}) as here, here.client() as client:
        job = here.submit(client, "true")
        client.wait(job)
        until(lambda: not client.history().jobs, 20.0)
        until(lambda: not (here.paths.jobs / job).exists(), 20.0)


def test_of_a_job_that_runs_again_and_again_the_last_runs_are_kept(here: Site) -> None:
    with here.client() as client:
        script = f"echo run $WEFT_RUN; [ $WEFT_RUN = {RUNS_KEPT + 3} ] && exec sleep 60; exit 1"
        job = here.submit(client, "sh", "-c", script, retries=str(RUNS_KEPT + 2))
        kept = [str(run) for run in range(4, RUNS_KEPT + 4)]
        folder = here.paths.jobs / job
        until(lambda: sorted((each.name for each in folder.glob("[0-9]*")), key=int) == kept)
        assert (folder / "checkpoints").is_dir()
        with pytest.raises(NotFound, match="the log of run 3 of job 1 was removed"):
            list(client.logs(job, run=3))
        assert b"".join(client.logs(job, run=4)) == b"run 4\n"


def test_a_journal_is_shortened_under_a_living_scheduler(here: Site) -> None:
    with here.client() as client:
        ids = [here.submit(client, "true") for _ in range(5)]
        for job in ids:
            client.wait(job)
        before = client.queue().position
        assert compact(here.paths.journal_url)
        late = here.submit(client, "sh", "-c", "exit 3")
        assert client.wait(late).exit_code == 3
        assert client.queue().position > before
    here.kill9()
    with here.client() as client:
        assert [job.exit_code for job in client.jobs([*ids, late]).jobs] == [0, 0, 0, 0, 0, 3]
        assert int(here.submit(client, "true")) == int(late) + 1


def test_a_full_disk_fails_no_job_that_waits(tmp_path: Path) -> None:
    import subprocess

    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", disk]).returncode:
        if os.environ.get("CI"):
            pytest.fail("a small tmpfs cannot be mounted here")
        pytest.skip("only root can mount a small tmpfs")
    try:
        with site({"gpus": "0,1"}, XDG_STATE_HOME=str(disk)) as here, here.client() as client:
            spec = spec_of({"command": ["sleep", "0.05"]})
            client.submit(SubmitRequest(jobs=[spec] * 400, env=PATH))
            with open(disk / "filler", "wb", buffering=0) as file:
                try:
                    while file.write(b"x" * 65536):
                        pass
                except OSError:
                    pass
            time.sleep(2.0)  # how long the disk is full: jobs end meanwhile
            (disk / "filler").unlink()
            until(lambda: not (found := client.queue(limit=1)).running and not found.waiting, 90.0)
            ended = client.history(limit=1000).jobs
            assert {(job.status, job.reason, job.exit_code) for job in ended} == {("done", "", 0)}
            assert len(ended) == 400
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
