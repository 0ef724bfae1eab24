"""A journal that was lost or rolled back: ids stay unique, and runs come back from their records."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.running.local_scheduler import Site, is_alive, site, until

OLD = "echo OLD; echo old > $WEFT_CKPT_DIR/ck; exit 5"


@pytest.fixture
def here() -> Iterator[Site]:
    with site({"gpus": "0,1", "min_run_s": 0}) as made:
        yield made


def delete(database: Path) -> None:
    for path in database.parent.glob("state.db*"):
        path.unlink()


def empty(database: Path) -> None:
    delete(database)
    database.touch()


def roll_back(database: Path) -> None:
    delete(database)
    shutil.copy(database.with_name("earlier"), database)


def leave_runs(here: Site, lose: Callable[[Path], None]) -> int:
    """Leave two runs behind, one of which goes on, and lose the journal. Returns the pid of the one."""
    with here.client() as client:
        first = here.submit(client, "true")
        client.wait(first)
    assert here.weft("down").returncode == 0
    database = here.paths.state / "state.db"
    shutil.copy(database, database.with_name("earlier"))
    with here.client() as client:
        old = here.submit(client, "sh", "-c", OLD, gpus="0", name="old")
        client.wait(old)
        alive = here.submit(client, "sh", "-c", "while ! test -e go; do sleep 0.05; done; exit 7", gpu_ids="1")
        until(lambda: client.jobs([alive]).jobs[0].status == "running")
        assert (first, old, alive) == ("1", "2", "3")
    record = json.loads((here.paths.jobs / "3" / "1" / "started.json").read_bytes().rstrip(b"\0 "))
    assert here.weft("down").returncode == 0
    lose(database)
    return int(record["leader"][1])


def test_lost_jobs_without_a_run_are_not_lost_silently(here: Site) -> None:
    with here.client() as client:
        client.wait(here.submit(client, "true"))
    assert here.weft("down").returncode == 0
    database = here.paths.state / "state.db"
    shutil.copy(database, database.with_name("earlier"))
    assert here.weft("submit", "--hold", "--", "true").returncode == 0
    assert here.weft("down").returncode == 0
    roll_back(database)
    found = here.weft("doctor")
    assert found.returncode == 1
    assert "is cut off or an older copy" in " ".join(found.stdout.split())
    assert "is cut off or an older copy" in here.weft("up").stderr


@pytest.mark.parametrize("lose", [delete, empty, roll_back])
def test_a_lost_journal_gets_its_runs_back(here: Site, lose: Callable[[Path], None]) -> None:
    pid = leave_runs(here, lose)
    missing = 2 if lose is roll_back else 3
    found = here.weft("doctor")
    assert found.returncode == 1
    assert f"lost or rolled back: {missing} jobs have runs that it does not know" in " ".join(found.stdout.split())
    with here.client() as client:
        jobs = {job.id: job for job in client.jobs(["1", "2", "3"]).jobs}
        assert [(jobs[job].status, jobs[job].exit_code) for job in "12"] == [("done", 0), ("failed", 5)]
        assert jobs["2"].name == "old"
        until(lambda: client.jobs(["3"]).jobs[0].status == "running")
        assert is_alive(pid)
        assert [list(gpu.jobs) for gpu in client.gpus().gpus] == [[], ["3"]]
        new = here.submit(client, "sh", "-c", "echo NEW; ls $WEFT_CKPT_DIR", gpus="0")
        assert (new, client.wait(new).exit_code) == ("4", 0)
        assert b"".join(client.logs(new)) == b"NEW\n"
        report = here.weft("doctor")
        assert (report.returncode, f"recovered {missing} jobs" in " ".join(report.stdout.split())) == (1, True)
        (here.root / "go").touch()
        assert client.wait("3").exit_code == 7
    assert here.weft("down").returncode == 0
    assert "rolled back" not in here.weft("doctor").stdout


def test_ids_are_above_every_folder_even_of_unreadable_runs(here: Site) -> None:
    here.paths.make()
    (here.paths.jobs / "41_7" / "1").mkdir(parents=True)
    with here.client() as client:
        assert here.submit(client, "true") == "42"


def test_a_run_on_a_gpu_that_is_gone_is_named_and_its_folder_stays(here: Site) -> None:
    pid = leave_runs(here, delete)
    here.settings(gpus="0")
    with here.client() as client:
        assert [job.id for job in client.jobs(["1", "2"]).jobs] == ["1", "2"]
        report = " ".join(here.weft("doctor").stdout.split())
        assert "still running on GPUs that are not known here: 3" in report
        assert here.submit(client, "true") == "4"
    assert is_alive(pid)
    assert (here.paths.jobs / "3" / "1" / "output.log").exists()
    (here.root / "go").touch()
    until(lambda: not is_alive(pid))


def test_a_recovered_job_keeps_its_group_its_retries_and_its_array(here: Site) -> None:
    loop = "while ! test -e go; do sleep 0.05; done; "
    fails_twice = f"test $WEFT_RUN != 1 || exit 3; {loop} test $WEFT_RUN != 2 || exit 4"
    with here.client() as client:
        client.wait(here.submit(client, "true", name="first"))
        flags = {"group": "sweep", "retries": "2", "priority": "3", "after": "1", "comment": "mine", "env": "A=b"}
        job = here.submit(client, "sh", "-c", fails_twice, gpu_ids="1", name="long", max_jobs_per_gpu="2", **flags)
        # a second job on the same GPU: without its share, it could not be recovered
        array = here.submit(client, "sh", "-c", loop, gpu_ids="1", max_jobs_per_gpu="2", array="4%1", group="sweep")
        until(lambda: [client.jobs([each]).jobs[0].status for each in (job, array)] == ["running", "running"])
        until(lambda: client.jobs([job]).jobs[0].run == 2)
        (before,) = client.jobs([job]).jobs
    assert here.weft("down").returncode == 0
    delete(here.paths.state / "state.db")
    with here.client() as client:
        until(lambda: client.jobs([job]).jobs[0].status == "running")
        (found, task) = client.jobs([job, array]).jobs
        for key in ("name", "group", "retries", "priority", "comment", "failures", "max_jobs_per_gpu", "run"):
            assert getattr(found, key) == getattr(before, key), key
        assert (task.group, task.array_index, task.status) == ("sweep", 4, "running")
        (here.root / "go").touch()
        assert client.wait(job).exit_code == 0
        assert client.jobs([job]).jobs[0].run == 3
        assert client.wait(array).exit_code == 0


@pytest.mark.parametrize("lose", [delete, roll_back])
def test_a_cancelled_job_does_not_run_again(here: Site, lose: Callable[[Path], None]) -> None:
    database = here.paths.state / "state.db"
    with here.client() as client:
        jobs = [here.submit(client, "sleep", "600", gpus="0")]
        stubborn = "trap '' TERM; echo up; while :; do sleep 0.05; done"
        jobs.append(here.submit(client, "sh", "-c", stubborn, gpus="0", grace="10s"))
        log = here.paths.jobs / jobs[1] / "1" / "output.log"
        until(lambda: client.jobs(jobs[:1]).jobs[0].status == "running" and log.exists() and log.read_text() == "up\n")
    assert here.weft("down").returncode == 0
    shutil.copy(database, database.with_name("earlier"))
    with here.client() as client:
        client.change("cancel", jobs)
        client.wait(jobs[0])
    assert here.weft("down").returncode == 0  # the second one is still stopping
    lose(database)
    assert " CA " in here.weft("history").stdout, "it starts the scheduler, which finds the runs"
    with here.client() as client:
        assert [client.wait(job).status for job in jobs] == ["cancelled", "cancelled"]
        assert [job.run for job in client.jobs(jobs).jobs] == [1, 1]
