"""Workspaces where something is missing, odd or another than usual: conda, tmux, names, variables, interpreters."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.local_scheduler import until
from support.running.workspaces import Desk, desk, needs_tmux

pytestmark = needs_tmux

ROOT = Path(__file__).resolve().parents[3]
CONDA = """#!/bin/sh
test "$1 $2 $3" = "run --no-capture-output -n" || exit 64
echo "conda activates $4"
shift 4
CONDA_DEFAULT_ENV=$4 exec "$@"
"""
HOSTILE = [
    "with space",
    "q'uo\"te",
    "$(touch pwned)",
    "a:b.c",
    "实验 ünï",
    "-dash",
    "{params.x}",
    "semi;",
    "a&b|c",
    "tab\there",
    "back\\slash`x`",
]


@pytest.fixture
def at() -> Iterator[Desk]:
    with desk() as made:
        yield made


def without(at: Desk, program: str) -> None:
    """A PATH on which everything is but one program."""
    bare = at.root / "bin"
    bare.mkdir(exist_ok=True)
    for name in ("sh", "env", "cat", "basename", "sleep", "tail", "printf", "touch", "bash", "tmux", "dirname"):
        found = shutil.which(name)
        if found and name != program:
            (bare / name).symlink_to(found)
    at.site.env["PATH"] = str(bare)


# ---- conda


def test_conda_runs_the_task_where_it_is_there(at: Desk) -> None:
    here = at.folder("exp", conda_env="torch2")
    (at.root / "stand-in").mkdir()
    conda = at.root / "stand-in" / "conda"
    conda.write_text(CONDA)
    conda.chmod(0o755)
    at.site.env["PATH"] = f"{conda.parent}:{at.site.env['PATH']}"
    here.configs(a="echo in it")
    done = here.weft("start")
    assert "conda" not in done.stderr
    assert here.until_over() == {"a": "done"}
    assert here.log("a").splitlines()[1:] == ["conda activates torch2", "in it"]


def test_without_conda_there_is_one_warning(at: Desk) -> None:
    here = at.folder("exp", conda_env="base")
    without(at, "conda")
    here.configs(a="echo in it", b="echo in it")
    done = here.weft("start")
    assert done.stderr.count("conda is not installed, so conda_env base is not used") == 1
    assert here.until_over() == {"a": "done", "b": "done"}
    assert here.log("a").splitlines()[1:] == ["in it"]


# ---- tmux


def test_without_tmux_everything_works_with_one_warning(at: Desk) -> None:
    here = at.folder("exp")
    without(at, "tmux")
    here.configs(a="echo in it; sleep 0.5", b="exit 1")
    done = here.weft("start")
    assert done.stderr.count("tmux is not installed") == 1
    assert "tmux attach" not in done.stdout
    assert here.until_over() == {"a": "done", "b": "failed"}
    assert "stopped" in here.weft("stop").stdout
    assert "ended 0 tasks" in here.weft("kill-all", "-y").stdout
    assert at.site.weft("attach", "a", check=True).stdout == "in it\n"


# ---- names


def test_hostile_names_are_names(at: Desk) -> None:
    here = at.folder("exp", max_jobs_per_gpu=10)
    (here.home / "task.sh").write_text('echo "config is $2"; test -f "$2"')
    for name in HOSTILE:
        (here.home / "configs" / f"{name}.yml").touch()
    here.weft("start")
    assert here.until_over() == dict.fromkeys(HOSTILE, "done")
    for name in HOSTILE:
        assert here.log(name).splitlines()[1:] == [f"config is {here.home}/configs/{name}.yml"]
        assert f"task: {name}\n" in here.marker(name).read_text()
    assert not list(at.root.rglob("pwned"))
    until(lambda: len(at.sessions()) == len(HOSTILE) + 1)
    assert all(re.fullmatch(r"[\w=@%,+-]+", name) for name in at.sessions())
    assert any(re.fullmatch("exp_实验_ünï_gpu[01]", name) for name in at.sessions())
    assert f"closed {len(HOSTILE) + 1} sessions" in here.weft("kill-all").stdout


def test_a_workspace_in_an_odd_place(at: Desk) -> None:
    here = at.folder("an 'odd' $place;")
    here.configure(task_name="odd")
    here.configs(a="echo in it")
    here.weft("start")
    assert here.until_over() == {"a": "done"}
    until(lambda: {"odd_a_gpu0", "odd_scheduler"} <= set(at.sessions()))


# ---- what runs


def test_variable_shell_line_and_logs_switched_off(at: Desk) -> None:
    here = at.folder(
        "exp", cuda_visible_devices_var="MY_GPU", pre_command="greeting='from before'; export greeting; cd configs",
        enable_logging=False, worker_prefix="w", scheduler_session_suffix="_queue",
    )  # fmt: skip
    here.configure(script_path=str(here.home / "task.sh"))
    (here.home / "task.sh").write_text('echo "$MY_GPU $greeting"; pwd')
    here.configs(a="")
    here.weft("start", "a.yml", "1")
    assert here.until_over() == {"a": "done"}
    assert not (here.home / "logs").exists()
    log = here.task("a")["log"]
    assert Path(log).read_text().splitlines() == ["1 from before", str(here.home / "configs")]
    until(lambda: at.sessions() == ["exp_queue", "w_a_gpu1"])


def test_the_wrapper_does_the_same_from_anywhere(at: Desk) -> None:
    at.site.weft("workspace", "init", "exp", check=True)
    home = at.root / "exp"
    shutil.copy(ROOT / "examples" / "workspace" / "train.py", home)
    (home / "configs" / "one.yml").touch()
    (home / "configs2").mkdir()
    (home / "configs2" / "two.yml").write_text("learning_rate: 0.1\nsteps: 3\n")
    other = (home / "scheduler_config.yml").read_text().replace("task_name: exp", "task_name: other")
    (home / "other_config.yml").write_text(f"{other}\nconfig_dir: configs2\nlog_dir: logs\nconda_env:\n")

    def wrapper(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [home / "scheduler.sh", *words], env=at.site.env, cwd="/", capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip

    assert "usage: weft workspace" in wrapper().stdout
    assert wrapper("help").stdout == wrapper().stdout
    assert "started 1 config: two" in wrapper("other_config.yml", "start").stdout
    until(lambda: (home / "out" / "two_completed.txt").exists())
    assert "y = " in (home / "out" / "two_completed.txt").read_text()
    until(lambda: "other: 0 waiting, 0 running, 1 done" in wrapper("other_config.yml", "status").stdout)
    assert "step 3/3 loss" in (home / "logs" / "train_logs" / "two.log").read_text()
    assert "exp: 0 waiting, 0 running, 0 done, 0 failed, 1 new" in wrapper("status").stdout
    assert re.search(
        r"^config_dir +\S+/exp/configs2 +\S+other_config.yml:\d+$", wrapper("other_config.yml", "config").stdout, re.M
    )
    assert wrapper("other_config.yml", "nonsense").returncode == 2


# ---- GPUs


def test_gpus_that_were_declared_before_are_used_as_they_are_called() -> None:
    with desk({"gpus": "4,6,7"}) as at:
        here = at.folder("exp")
        here.configs(a="sleep 0.5", b="sleep 0.5", c="sleep 0.5")
        done = here.weft("start", "a.yml", "0", check=False)
        assert "there is no GPU 0 for a\n  usable: GPU 4, 6; gpu_count is 2" in done.stderr
        here.weft("start", "a.yml,b.yml,c.yml", "6")
        until(lambda: {"exp_a_gpu6", "exp_b_gpu4"} <= set(at.sessions()))
        assert set(here.until_over().values()) == {"done"}
        assert {name: gpu for name, gpu, _ in here.ran()} == {"a": "6", "b": "4", "c": "4"}
        assert [here.task(name)["gpu"] for name in "abc"] == [6, 4, 4]
        assert [gpu["gpu"] for gpu in here.status()["gpus"]] == [4, 6]


def test_with_a_driver_the_first_gpus_are_used(tmp_path: Path) -> None:
    devices = [{"uuid": f"GPU-{index}", "model": "RTX3090", "memory_mb": 24576} for index in range(4)]
    driver = tmp_path / "driver.json"
    driver.write_text(json.dumps({"devices": devices}))
    with desk(WEFT_NVML_FAKE=str(driver)) as at:
        here = at.folder("exp", max_jobs_per_gpu=3)
        here.configs(**dict.fromkeys("abcdefgh", "sleep 0.3"))
        here.weft("start")
        assert set(here.until_over().values()) == {"done"}
        assert {gpu for _, gpu, _ in here.ran()} == {"GPU-0", "GPU-1"}
        assert [(gpu["gpu"], gpu["used_mb"]) for gpu in here.status()["gpus"]] == [(0, 0), (1, 0)]
        until(lambda: len(at.sessions()) == 9)
        assert {name[-4:] for name in at.sessions() if name != "exp_scheduler"} == {"gpu0", "gpu1"}


def test_fewer_gpus_than_wanted_are_told_of() -> None:
    with desk({"gpus": "0"}) as at:
        here = at.folder("exp", session_backend="none")
        here.configs(a="true")
        assert "gpu_count is 2, but there is only 1" in here.weft("start").stderr
        assert here.until_over() == {"a": "done"}


def test_gpus_that_have_to_wait_for_jobs_are_told_of(at: Desk) -> None:
    """A scheduler without GPUs takes none up while jobs run that it started without."""
    here = at.folder("exp", session_backend="none")
    here.configs(a="true")
    at.site.weft("submit", "--gpus", "0", "--name", "early", "sleep", "60", check=True)
    done = here.weft("start", check=False)
    assert done.returncode != 0
    assert "2 GPUs are declared, but the scheduler cannot use them while jobs run" in done.stderr
    at.site.weft("cancel", "early", check=True)
    until(lambda: here.weft("start", check=False).returncode == 0)
    assert here.until_over() == {"a": "done"}


# ---- at once


def test_many_starts_at_once_start_everything_once(at: Desk) -> None:
    """Two new workspaces, nothing there yet, three commands in each."""
    folders = [at.folder(name, task_name="exp", session_backend="none") for name in "xy"]
    for here in folders:
        here.configs(a="sleep 0.3", b="sleep 0.3")
    words = [[sys.executable, "-m", "weft", "workspace", "--dir", str(here.home), "start"] for here in folders]
    them = [
        subprocess.Popen(each, env=at.site.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for each in 3 * words
    ]
    said = [each.communicate(timeout=60) for each in them]
    assert [each.returncode for each in them] == [0] * 6, said
    assert sum("started 2 configs: a, b" in out for out, _ in said) == 2
    for here in folders:
        assert here.until_over() == {"a": "done", "b": "done"}
        assert sorted(name for name, *_ in here.ran()) == ["a", "b"]
