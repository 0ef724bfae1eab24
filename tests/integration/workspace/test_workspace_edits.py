"""Configs that change between two starts, other workspaces on the same GPUs, and tasks that wait for their turn."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from itertools import pairwise

import pytest

from support.running.local_scheduler import is_alive, until
from support.running.workspaces import Desk, Folder, desk

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
    assert "max_jobs_per_gpu is 4 in the config: weft workspace start applies it to the waiting tasks" in before
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


def test_declared_gpus_grow_with_the_largest_gpu_count_while_tasks_run(at: Desk) -> None:
    first = at.folder("one", gpu_count=1, session_backend="none")
    first.configs(a=WAIT)
    first.weft("start")
    ((_, _, pid),) = first.until_ran(1)
    second = at.folder("two", gpu_count=2, session_backend="none")
    second.configs(**dict.fromkeys("ab", "true"))
    second.weft("start", "a.yml,b.yml", "0,1")
    assert second.until_over() == {"a": "done", "b": "done"}
    assert sorted(line[:2] for line in second.ran()) == [["a", "0"], ["b", "1"]]
    assert is_alive(int(pid))
    assert [(gpu["gpu"], gpu["jobs"]) for gpu in first.status()["gpus"]] == [(0, 1)]
    at.site.weft("down", check=True)
    assert [gpu["jobs"] for gpu in second.status()["gpus"]] == [1, 0]
    (at.root / "go").touch()
    assert first.until_over() == {"a": "done"}
    assert len(first.ran()) == 1
    first.configure(gpu_count=3)
    first.configs(b="true")
    first.weft("start", "b.yml", "2")
    assert first.until_over() == {"a": "done", "b": "done"}


def test_gpus_that_the_user_declared_do_not_grow(at: Desk) -> None:
    at.site.weft("up", "--gpus", "0", check=True)
    here = at.folder("exp", gpu_count=2, session_backend="none")
    here.configs(a="true")
    assert "gpu_count is 2, but there is only 1; weft up --gpus declares others" in here.weft("start").stderr
    here.until_over()
    with at.site.client() as client:
        assert len(client.gpus().gpus) == 1


def test_the_script_of_the_workspace_comes_before_that_of_work_dir(at: Desk) -> None:
    here = at.folder("exp", work_dir="..", session_backend="none")
    (at.root / "task.sh").write_text("echo WORK_DIR")
    (here.home / "task.sh").write_text("echo WORKSPACE")
    here.configs(a="")
    here.weft("start")
    here.until_over()
    assert "WORKSPACE" in here.log("a")


def test_an_output_dir_that_cannot_be_written_starts_nothing(at: Desk) -> None:
    here = at.folder("exp", output_dir="/proc/nowhere", session_backend="none")
    here.configs(a="true")
    failed = here.weft("start", check=False)
    assert (failed.returncode, "output_dir /proc/nowhere cannot be written" in failed.stderr) == (2, True)
    assert "scheduler_config.yml:" in failed.stderr
    assert here.ran() == []


def test_the_log_of_the_scheduler_tells_starts_and_stops_in_order(at: Desk) -> None:
    here = at.folder("exp", session_backend="none", max_jobs_per_gpu=8)
    here.configs(c1=WAIT, c10=WAIT, c2=WAIT)
    assert "started 3 configs: c1, c2, c10" in here.weft("start").stdout
    here.until_ran(3)
    here.weft("kill-all", "-y")
    lines = [line[20:] for line in (here.home / "logs" / "exp_scheduler.log").read_text().splitlines()[1:]]
    assert lines[0] == "start: 3 started"
    assert "kill-all: ending 3 tasks" in lines
    assert len([line for line in lines if "stopped after" in line]) == 3
    assert not [line for line in lines if "failed" in line]


def test_an_unknown_command_names_the_nearest(at: Desk) -> None:
    here = at.folder("exp")
    failed = here.weft("statsu", check=False)
    assert failed.returncode == 2
    assert "status" in failed.stderr.split("statsu", 1)[1][:60]


def test_the_wrapper_finds_its_workspace_through_a_link(at: Desk) -> None:
    home = at.root / "made"
    at.site.weft("workspace", "init", str(home), check=True)
    (at.root / "link").symlink_to(home / "scheduler.sh")
    shared = at.root / "shared"
    shared.mkdir()
    (shared / "scheduler_config.yml").write_text("task_name: shared\n")
    (shared / "scheduler.sh").symlink_to(home / "scheduler.sh")
    for path, name in ((at.root / "link", "made"), (shared / "scheduler.sh", "shared")):
        done = subprocess.run([path, "config"], env=at.site.env, capture_output=True, text=True, check=True, cwd="/")
        assert f"task_name {name}" in " ".join(done.stdout.split())
