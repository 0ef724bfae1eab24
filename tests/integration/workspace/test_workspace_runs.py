"""Workspaces at work: real processes, a real scheduler, a real tmux server."""

from __future__ import annotations

import json
import re
import stat
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from support.running.local_scheduler import is_alive, until
from support.running.workspaces import Desk, desk, needs_tmux

pytestmark = needs_tmux

LINE = re.compile(r"[0-9-]{10} [0-9:]{8} (.*)")


@pytest.fixture
def at() -> Iterator[Desk]:
    with desk() as made:
        yield made


def test_from_start_to_end(at: Desk) -> None:
    here = at.folder("exp")
    here.configs(a="echo I am a; sleep 0.3", b="echo I am b; sleep 1.5", c="exit 3")
    said = here.weft("start").stdout
    assert "started 3 configs: a, b, c" in said
    assert "tmux attach -t exp_scheduler" in said
    until(lambda: {"exp_a_gpu0", "exp_b_gpu1", "exp_c_gpu0", "exp_scheduler"} <= set(at.sessions()))
    assert here.until_over() == {"a": "done", "b": "done", "c": "failed"}
    assert sorted(line[:2] for line in here.ran()) == [["a", "0"], ["b", "1"], ["c", "0"]]

    found = here.status()
    assert found["counts"] == {"waiting": 0, "running": 0, "done": 2, "failed": 1, "cancelled": 0, "new": 0}
    assert [(gpu["gpu"], gpu["jobs"], gpu["limit"]) for gpu in found["gpus"]] == [(0, 0, 2), (1, 0, 2)]
    failed = here.task("c")
    assert (failed["exit_code"], failed["gpu"], failed["retries"]) == (3, 0, 0)
    shown = here.weft("status").stdout
    assert "exp: 0 waiting, 0 running, 2 done, 1 failed" in shown
    assert re.search(r"^ *0 +0/2 +0/32,768 MB reserved", shown, re.MULTILINE)
    assert re.search(r"^b +done +1 +0:0\d .*logs/train_logs/b\.log", shown, re.MULTILINE)

    assert not here.marker("c").exists()
    marker = dict(line.split(": ", 1) for line in here.marker("b").read_text().splitlines())
    assert (marker["task"], marker["gpu"], marker["exit_code"]) == ("b", "1", "0")
    assert 1.4 < float(marker["duration_s"]) < 20
    assert marker["time"].startswith(time.strftime("%Y-"))

    assert here.log("a").splitlines()[1:] == ["I am a"]
    log = Path(found["log"])
    assert log == here.home / "logs" / "exp_scheduler.log"
    lines = [match[1] for match in map(LINE.match, log.read_text().splitlines()[1:]) if match]
    assert "c: failed with exit code 3 after" in next(line for line in lines if line.startswith("c: failed"))
    assert "b: run 1 on GPU 1" in lines
    for path in (log, *(here.home / "logs" / "train_logs").iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_finished_sessions_stay_readable_and_nothing_runs_in_them(at: Desk) -> None:
    here = at.folder("exp")
    here.configs(a="echo first line; echo last line")
    here.weft("start")
    here.until_over()
    until(lambda: "exp_a_gpu0" in at.sessions())
    until(lambda: at.tmux("display-message", "-p", "-t", "=exp_a_gpu0:", "#{pane_dead}").strip() == "1")
    shown = at.tmux("capture-pane", "-p", "-t", "=exp_a_gpu0:")
    assert "first line\nlast line" in shown
    until(lambda: at.tmux("display-message", "-p", "-t", "=exp_scheduler:", "#{pane_dead}").strip() == "1")
    shown = at.tmux("capture-pane", "-p", "-t", "=exp_scheduler:")
    assert shown.lstrip().startswith("exp: 0 waiting, 0 running, 1 done, 0 failed")
    assert "a: complete after" in shown


def test_cleanup_closes_the_sessions_of_complete_tasks_only(at: Desk) -> None:
    here = at.folder("exp", cleanup_on_complete=True)
    wait = "while ! test -e go; do sleep 0.05; done; "
    here.configs(a=wait, b=wait + "exit 1")
    here.weft("start")
    until(lambda: {"exp_a_gpu0", "exp_b_gpu1"} <= set(at.sessions()))
    (here.home / "go").touch()
    assert here.until_over() == {"a": "done", "b": "failed"}
    until(lambda: "exp_a_gpu0" not in at.sessions())
    assert "exp_b_gpu1" in at.sessions()


def test_pinned_balanced_and_refused(at: Desk) -> None:
    here = at.folder("exp", max_jobs_per_gpu=8)
    here.configs(**dict.fromkeys("abcdef", "sleep 0.2"))
    done = here.weft("start", "a.yml,nope.yml,neither.yml", check=False)
    assert done.returncode == 2
    assert "there is no config nope.yml, neither.yml" in done.stderr
    done = here.weft("start", "a.yml,b.yml", "0,0,1", check=False)
    assert done.returncode == 2
    assert "3 GPUs for 2 configs" in done.stderr
    done = here.weft("start", "a.yml", "2", check=False)
    assert "there is no GPU 2 for a\n  usable: GPU 0, 1; gpu_count is 2" in done.stderr
    assert here.ran() == []
    here.weft("start", "a.yml,b.yml,c.yml", "1,1,0")
    here.until_ran(3)
    assert {name: gpu for name, gpu, _ in here.ran()} == {"a": "1", "b": "1", "c": "0"}
    here.weft("start", "d.yml,e.yml,f.yml", "1")
    here.until_over()
    gpus = {name: gpu for name, gpu, _ in here.ran()}
    assert gpus["d"] == "1"
    assert len(here.ran()) == 6


def test_complete_configs_are_skipped_and_run_again_when_told(at: Desk) -> None:
    here = at.folder("exp")
    here.configs(a="true", b="true")
    here.marker("a").write_text("by hand\n")
    said = here.weft("start").stdout
    assert "complete, skipped: a; --rerun runs them again" in said
    here.until_over()
    assert [name for name, *_ in here.ran()] == ["b"]
    assert here.states() == {"a": "done", "b": "done"}
    said = here.weft("start", "--rerun", "a.yml").stdout
    assert "started 1 config: a" in said
    assert here.until_over() == {"a": "done", "b": "done"}
    assert [name for name, *_ in here.ran()] == ["b", "a"]
    assert here.marker("a").read_text().startswith("task: a\n")
    assert here.marker("a").with_name("a_completed.txt.before").read_text() == "by hand\n"


def test_stop_keeps_the_queue_and_start_goes_on(at: Desk) -> None:
    here = at.folder("exp", max_jobs_per_gpu=1, gpu_count=1, auto_restart_failed=True)
    here.configs(
        a="while ! test -e go; do sleep 0.05; done; test -e went || { touch went; exit 1; }", b="true", c="true"
    )
    here.weft("start")
    here.until_ran(1)
    assert "stopped: 2 tasks held, 1 still running" in here.weft("stop").stdout
    (here.home / "go").touch()
    until(lambda: here.task("a")["state"] == "held")  # it failed, and is not tried again while stopped
    assert len(here.ran()) == 1
    assert here.status()["stopped"]
    assert "stopped, start continues" in here.weft("status").stdout
    assert "continued 3 tasks" in here.weft("start").stdout
    assert here.until_over() == dict.fromkeys("abc", "done")
    assert sorted(name for name, *_ in here.ran()) == ["a", "a", "b", "c"]
    assert here.task("a")["retries"] == 1


def test_failed_tasks_are_tried_again_only_so_often(at: Desk) -> None:
    here = at.folder("exp", auto_restart_failed=True, max_retries=2)
    here.configs(a="exit 7")
    here.weft("start")
    assert here.until_over() == {"a": "failed"}
    task = here.task("a")
    assert (task["retries"], task["max_retries"], task["exit_code"], len(here.ran())) == (2, 2, 7, 3)
    here.weft("start")  # a failed one is run again when asked for
    here.until_over()
    assert len(here.ran()) == 6


def test_two_workspaces_alike_never_interfere(at: Desk) -> None:
    """Same names of everything, one place for logs."""
    first, second = (at.folder(f"{name}/exp", task_name="exp", log_dir=str(at.root / "logs")) for name in "xy")
    first.configs(a="echo I am first; sleep 60")
    second.configs(a="echo I am second; sleep 60")
    first.weft("start")
    first.until_ran(1)
    second.weft("start")
    second.until_ran(1)
    until(lambda: len(at.sessions()) == 4)
    logs = [here.task("a")["log"] for here in (first, second)]
    until(lambda: [Path(log).read_text().splitlines()[1:] for log in logs] == [["I am first"], ["I am second"]])
    names = [json.loads(here.weft("start", "--json").stdout)["session"] for here in (first, second)]
    assert len(set(names)) == 2
    (one,), (other,) = first.ran(), second.ran()
    assert "ended 1 task, closed 2 sessions" in first.weft("kill-all").stdout
    assert not is_alive(int(one[2]))
    assert is_alive(int(other[2]))
    assert (first.states(), second.states()) == ({"a": "cancelled"}, {"a": "running"})
    assert len(at.sessions()) == 2
    assert not first.marker("a").exists()
    second.weft("kill-all", "-y")
    assert at.sessions() == []


def test_a_hundred_configs_never_exceed_the_limit(at: Desk) -> None:
    here = at.folder("exp", max_jobs_per_gpu=4, session_backend="none")
    here.configs(**{f"c{number:03}": "sleep 0.05" for number in range(100)})
    here.weft("start")
    assert set(here.until_over().values()) == {"done"}
    assert len({name for name, *_ in here.ran()}) == len(here.ran()) == 100
    on: dict[int, int] = {0: 0, 1: 0}
    most, where = 0, {}
    with at.site.client() as client:
        facts = client.watch(0)
        left = 100
        while left:
            fact = next(facts)
            if fact["fact"] == "Start":
                where[fact["job"]] = fact["slots"][0][1][0]
                on[where[fact["job"]]] += 1
                most = max(most, *on.values())
            elif fact["fact"] == "Exited":
                on[where[fact["job"]]] -= 1
                left -= 1
    assert most == 4


def test_starts_on_the_same_gpu_are_staggered(at: Desk) -> None:
    here = at.folder("exp", max_jobs_per_gpu=3, startup_delay=0.6)
    (here.home / "task.sh").write_text('echo "$2 $CUDA_VISIBLE_DEVICES $(date +%s.%N)" >> ran')
    here.configs(**dict.fromkeys("abcd", ""))
    here.weft("start")
    here.until_over()
    at_gpu: dict[str, list[float]] = {}
    for _, gpu, when in here.ran():
        at_gpu.setdefault(gpu, []).append(float(when))
    assert sorted(at_gpu) == ["0", "1"]
    for times in at_gpu.values():
        assert all(later - earlier > 0.5 for earlier, later in pairwise(sorted(times)))
    first, second = sorted(min(times) for times in at_gpu.values())
    assert second - first < 0.5, "starts on different GPUs do not wait for each other"
