"""A config that is edited between `stop` and `start`, and tasks that wait for their turn to start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

import pytest

from support.local_scheduler import until
from support.workspaces import Desk, Folder, desk

WAIT = "while ! test -e ../go; do sleep 0.05; done"


@pytest.fixture
def at() -> Iterator[Desk]:
    with desk() as made:
        yield made


def limits(here: Folder) -> list[tuple[int, int]]:
    return [(gpu["jobs"], gpu["limit"]) for gpu in here.status()["gpus"]]


def test_start_applies_the_edited_config_to_held_tasks(at: Desk) -> None:
    here = at.folder("exp", max_jobs_per_gpu=1, gpu_count=1, session_backend="none")
    here.configs(**dict.fromkeys("abcde", WAIT))
    here.weft("start")
    here.until_ran(1)
    here.weft("stop")
    (at.root / "go").touch()
    until(lambda: here.task("a")["state"] == "done")
    (at.root / "go").unlink()
    (here.home / "other.sh").write_text('echo other >> ran\nexec sh "$2"\n')
    here.configure(max_jobs_per_gpu=4, script_path="other.sh", auto_restart_failed=True, max_retries=2)
    before = here.weft("status").stdout
    assert limits(here) == [(0, 1)]
    assert "max_jobs_per_gpu is 4 in the config: start applies it to the waiting tasks" in before
    ids = {task["name"]: task["job"] for task in here.status()["tasks"]}
    said = here.weft("start").stdout
    assert (
        "applied the config to 4 waiting tasks: task.sh -> other.sh; max_jobs_per_gpu 1 -> 4; max_retries 0 -> 2\n"
        in said
    )
    until(lambda: limits(here) == [(4, 4)])
    assert "start applies" not in here.weft("status").stdout
    assert here.until_ran(5)[1:] == [["other"]] * 4
    assert {task["name"]: task["job"] for task in here.status()["tasks"]} == ids
    assert here.task("b")["max_retries"] == 2
    assert "applied" not in here.weft("start").stdout
    (at.root / "go").touch()
    assert set(here.until_over().values()) == {"done"}


def test_a_waiting_task_keeps_its_gpu_while_the_config_allows_it(at: Desk) -> None:
    here = at.folder("exp", max_jobs_per_gpu=1, gpu_count=2, session_backend="none")
    here.configs(**dict.fromkeys("abc", WAIT))
    here.weft("start", "a.yml,b.yml,c.yml", "1,1,1")
    here.until_ran(1)
    here.weft("stop")
    here.configure(max_jobs_per_gpu=3)
    here.weft("start")
    with at.site.client() as client:
        assert [list(job.spec["gpu_ids"]) for job in client.jobs(["b", "c"]).jobs] == [[1], [1]]
    here.weft("stop")
    here.configure(gpu_count=1)
    found = json.loads(here.weft("start", "--json").stdout)
    assert found["changed"] == {"b": ["GPU 0"], "c": ["GPU 0"]}
    (at.root / "go").touch()
    assert set(here.until_over().values()) == {"done"}


def test_a_mistake_in_the_edited_config_changes_no_task(at: Desk) -> None:
    here = at.folder("exp", max_jobs_per_gpu=1, gpu_count=1, session_backend="none")
    here.configs(**dict.fromkeys("ab", WAIT))
    here.weft("start")
    here.until_ran(1)
    here.weft("stop")
    here.configure(script_path="nowhere.sh")
    failed = here.weft("start", check=False)
    assert (failed.returncode, "there is no nowhere.sh" in failed.stderr) == (2, True)
    assert here.states() == {"a": "running", "b": "held"}


def test_tasks_that_wait_for_their_turn_do_not_run(at: Desk) -> None:
    here = at.folder("exp", max_jobs_per_gpu=4, gpu_count=1, startup_delay=2, session_backend="none")
    (here.home / "task.sh").write_text(
        'echo "$(basename $2 .yml) $CUDA_VISIBLE_DEVICES $(date +%s.%N)" >> ran; sleep 0.2'
    )
    here.configs(**dict.fromkeys("abcd", ""))
    here.weft("start")
    with at.site.client() as client:
        jobs = client.jobs(["a", "b", "c", "d"]).jobs
        assert [job.reason for job in jobs[2:]] == ["BeginTime"] * 2
        assert [job.run for job in jobs[2:]] == [0, 0]
    here.until_over()
    ran = here.ran()
    assert [name for name, *_ in ran] == ["a", "b", "c", "d"]
    times = [float(when) for *_, when in ran]
    assert min(after - before for before, after in pairwise(times)) > 1.5
    with at.site.client() as client:
        assert max(job.time_s or 0.0 for job in client.jobs(["a", "b", "c", "d"]).jobs) < 1.9
