"""A task that has to go for a better job: told in time, run again later, complete once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.running.local_scheduler import until
from support.running.workspaces import Desk, desk, needs_tmux

pytestmark = needs_tmux

SAVES = """
trap 'echo saved > state; echo told; exit 0' TERM
test -e state && echo "goes on" || echo "begins"
while ! test -e go; do sleep 0.05; done
echo over
"""


@pytest.fixture
def at() -> Iterator[Desk]:
    with desk({"gpus": "0,1", "min_run_s": 0}) as made:
        yield made


def test_a_preempted_task_goes_on_later(at: Desk) -> None:
    here = at.folder("exp", max_jobs_per_gpu=1, auto_restart_failed=True)
    (here.home / "task.sh").write_text(f'echo "$(basename "$2" .yml) $CUDA_VISIBLE_DEVICES $$" >> ran\n{SAVES}')
    here.configs(a="", b="")
    here.weft("start", "a.yml", "0")
    here.weft("start", "b.yml")
    here.until_ran(2)
    until(lambda: {"exp_a_gpu0", "exp_b_gpu1"} <= set(at.sessions()))

    with at.site.client() as client:
        hurry = ("sh", "-c", f"while ! test -e {at.root}/enough; do sleep 0.05; done")
        urgent = at.site.submit(client, *hurry, gpus="1", priority="100")
        until(lambda: here.task("b")["state"] == "waiting")
        task = here.task("b")
        assert (task["gpu"], task["time_s"], task["preemptions"], task["retries"]) == (None, None, 1, 0)
        assert not here.marker("b").exists()  # it ended with 0, but it was told to
        assert "b: stopped after" in (here.home / "logs" / "exp_scheduler.log").read_text()
        shown = here.weft("status").stdout
        assert "preempted (" in next(line for line in shown.splitlines() if line.startswith("b "))
        assert "1 waiting, 1 running" in shown

        # meanwhile GPU 0 is given up: it goes on there, not where it was
        (here.home / "out" / "a_completed.txt").touch()
        client.change("cancel", ["a"])
        until(lambda: here.task("b")["state"] == "running")
        until(lambda: "exp_b_gpu0" in at.sessions())
        until(lambda: "exp_b_gpu1" not in at.sessions())
        assert (here.task("b")["gpu"], here.task("b")["run"]) == (0, 2)
        (at.root / "enough").touch()
        assert client.wait(urgent).status == "done"

    (here.home / "go").touch()
    assert here.until_over()["b"] == "done"
    assert [line[:2] for line in here.ran() if line[0] == "b"] == [["b", "1"], ["b", "0"]]
    assert here.log("b").splitlines()[1:] == ["begins", "told", "goes on", "over"]
    marker = dict(line.split(": ", 1) for line in here.marker("b").read_text().splitlines())
    assert (marker["task"], marker["gpu"], marker["exit_code"]) == ("b", "0", "0")
    task = here.task("b")
    assert (task["run"], task["retries"], task["preemptions"], task["warning"]) == (2, 0, 1, "")


def test_a_task_that_fails_when_it_is_told_loses_no_retry(at: Desk) -> None:
    here = at.folder("exp", max_jobs_per_gpu=1, gpu_count=1, auto_restart_failed=True, max_retries=1)
    here.configs(a="test -e second && exit 0; trap 'exit 3' TERM; touch second; while :; do sleep 0.05; done")
    here.weft("start")
    until((here.home / "second").exists)
    with at.site.client() as client:
        urgent = at.site.submit(client, "true", gpus="2", priority="100")  # all there are
        assert client.wait(urgent).status == "done"
    assert here.until_over() == {"a": "done"}
    task = here.task("a")
    assert (task["run"], task["retries"], task["preemptions"], task["exit_code"]) == (2, 0, 1, 0)
    assert here.marker("a").read_text().startswith("task: a\n")
