"""`weft.submit` and its handles, against a real scheduler."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from support.running.local_scheduler import Site, site, until
from weft.access.client.api import connection, disconnect
from weft.errors import InputError, NotFound


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with site({"gpus": "0,1", "models": "A,A", "memories": "24576,24576"}) as made:
        for key in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
            monkeypatch.setenv(key, made.env[key])
        monkeypatch.chdir(made.root)
        yield made
        disconnect()


def test_a_job_from_its_submission_to_its_end(here: Site) -> None:
    job = weft.submit(["sh", "-c", "echo $GREETING {params.who}; pwd; exit 3"], name="hello", gpus=2, memory="2G",
                      params={"who": "you"}, env={"GREETING": "hi"})  # fmt: skip
    assert job.wait(20) == 3
    assert job.logs() == f"hi you\n{here.root}\n"
    assert (job.status, job.exit_code, repr(job)) == ("failed", 3, f"JobHandle('{job.id}')")
    assert (job.show()["name"], job.show()["memory_mb"], job.show()["gpus"]) == ("hello", 2048, 2)
    assert job.cancel() is False
    assert weft.JobHandle(job.id) == job
    assert weft.JobHandle("hello").exit_code == 3


def test_a_job_without_a_command_runs_its_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an installed package brings it."""
    with pytest.raises(InputError, match="no command, and no workload for the model 'tiny'"):
        weft.submit(params={"model": "tiny"})
    with pytest.raises(InputError, match=r"no command, and no params\.model"):
        weft.submit(name="nothing")
    about = tmp_path / "tiny-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[weft.workloads]\ntiny = tiny_workload:command\n")
    (tmp_path / "tiny_workload.py").write_text("def command(params): return ['echo', 'epochs', params['epochs']]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    job = weft.submit(params={"model": "tiny", "epochs": 3}, gpus=1)
    assert (job.wait(20), job.logs()) == (0, "epochs 3\n")


def test_waiting_has_an_end() -> None:
    job = weft.submit(["sleep", "60"])
    assert job.exit_code is None
    with pytest.raises(TimeoutError, match=r"has not ended after 0\.2 s"):
        job.wait(0.2)
    with pytest.raises(TimeoutError):
        job.wait(0)
    assert job.cancel() is True
    assert job.wait(20) == 143
    assert job.status == "cancelled"


def test_submit_can_wait() -> None:
    assert weft.submit("exit 4", wait=True).exit_code == 4


def test_logs_can_be_followed() -> None:
    job = weft.submit("for i in 1 2 3; do echo täst $i; sleep 0.3; done")
    pieces = list(job.logs(follow=True))
    assert "".join(pieces) == "täst 1\ntäst 2\ntäst 3\n"
    assert len(pieces) >= 2
    assert job.logs(lines=1) == "täst 3\n"


def test_an_array_is_one_handle() -> None:
    jobs = weft.submit("echo $WEFT_ARRAY_TASK_ID; [ $WEFT_ARRAY_TASK_ID != 2 ] || exit 7", array=range(4), gpus=0)
    assert jobs.wait(20) == 7
    assert [task.logs() for task in jobs.tasks] == ["0\n", "1\n", "2\n", "3\n"]
    assert [task.exit_code for task in jobs.tasks] == [0, 0, 7, 0]
    assert (jobs.status, jobs.progress) == ("failed", {"step": 4, "total": 4})
    assert weft.JobHandle(jobs.id).tasks == jobs.tasks


def test_many_at_once_and_one_after_another() -> None:
    first, second, third = weft.submit_many(
        [{"command": "exit 5", "gpus": 0}, {"command": ["true"], "gpus": 0}, {"command": ["true"], "after": "#1"}]
    )
    last = weft.submit(["true"], after=[second, third])
    doomed = weft.submit(["true"], after=first)
    assert [job.wait(20) for job in (first, second, third, last)] == [5, 0, 0, 0]
    assert doomed.wait(20) != 0
    assert weft.submit_many([]) == []


def test_mistakes_are_told_and_nothing_is_queued() -> None:
    with pytest.raises(InputError, match="needs 99 GPUs"):
        weft.submit(["true"], gpus=99)
    with pytest.raises(InputError, match="no program 'no-such-program'"):
        weft.submit(["no-such-program"])
    with pytest.raises(InputError, match=r"job #1: unknown key of a task 'gpu'"):
        weft.submit_many([{"command": ["true"]}, {"command": ["true"], "gpu": 1}])
    assert connection().queue().jobs == []
    with pytest.raises(NotFound):
        _ = weft.JobHandle("77").status


def test_waiting_goes_on_when_the_scheduler_is_killed(here: Site) -> None:
    job = weft.submit("sleep 1.5; exit 6")
    until(lambda: job.status == "running")
    codes: list[int] = []
    waiting = threading.Thread(target=lambda: codes.append(job.wait(30)))
    waiting.start()
    time.sleep(0.2)
    here.kill9()
    waiting.join(30)
    assert codes == [6]
    assert weft.submit(["true"]).wait(20) == 0


def test_secrets_stay_here_unless_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "hunter2")
    assert weft.submit("echo '['$MY_API_KEY']'", wait=True).logs() == "[]\n"
    assert weft.submit("echo '['$MY_API_KEY']'", wait=True, env_all=True).logs() == "[hunter2]\n"


def test_the_directory_is_the_submitters(here: Site) -> None:
    Path("below").mkdir()
    assert weft.submit("pwd", chdir="below", wait=True).logs() == f"{here.root}/below\n"
