"""From configs to jobs."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.views.answers.jobs import ProgressView
from weft.workspace.config import Config, read
from weft.workspace.launch import Launch, find_conda, job_name, script
from weft.workspace.status import TaskState, TaskView, estimate
from weft.workspace.tasks import all_tasks, chosen_tasks


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "configs" / "deep").mkdir(parents=True)
    for name in ("b.yml", "a.yml", "a.json", "deep/c.yml"):
        (tmp_path / "configs" / name).touch()
    return configured(tmp_path)


def configured(home: Path, **keys: object) -> Config:
    lines = [f"{key}: {value}" for key, value in {"task_name": "exp", **keys}.items()]
    (home / "scheduler_config.yml").write_text("\n".join(lines))
    return read(home)


def test_all_configs_in_order(config: Config) -> None:
    assert [task.name for task in all_tasks(config)] == ["a", "b"]
    assert [task.name for task in all_tasks(configured(config.home, config_pattern="'**/*.yml'"))] == [
        "a",
        "b",
        "deep_c",
    ]
    with pytest.raises(InputError, match=r"a\.yml and a\.json are both called a"):
        all_tasks(configured(config.home, config_pattern="'a.*'"))
    with pytest.raises(InputError, match="bad config_pattern"):
        all_tasks(configured(config.home, config_pattern="../*.yml"))


def test_chosen_ones_with_gpus(config: Config) -> None:
    assert [(task.name, task.gpu) for task in chosen_tasks(config, " b.yml, a.yml ,configs/deep/c.yml", "1")] == [
        ("b", 1), ("a", None), ("deep_c", None),
    ]  # fmt: skip
    assert [task.gpu for task in chosen_tasks(config, "a.yml,b.yml,", "0,1,")] == [0, 1]
    for names, gpus, says in [
        ("a.yml,a.yml", "", "named twice"), (" , ", "", "no config is named"), ("a.yml", "0,1", "2 GPUs for 1 config"),
        ("a.yml", "x", "'x' is not the number of a GPU"), ("a.yml", "-1", "'-1' is not"),
        ("x.yml,a.yml,y.yml", "", "no config x.yml, y.yml"), ("a", "", r"the nearest is a\.yml"),
        ("a.yml,b.yml", "0,,1", "item 2 of '0,,1' is empty"), ("a.yml,,b.yml", "", "item 2 of"),
    ]:  # fmt: skip
        with pytest.raises(InputError, match=says):
            chosen_tasks(config, names, gpus)


def test_a_job_for_a_config(config: Config) -> None:
    config = configured(config.home, auto_restart_failed="true", max_jobs_per_gpu=4, python_env="/usr/bin/python3")
    pinned, free = chosen_tasks(config, "a.yml,b.yml", "1")
    launch = Launch(config, Path("/run/weft"), 1000, (0, 1))
    spec = launch.spec(pinned)
    assert (list(spec.gpu_ids), list(spec.gpu_choice), spec.max_jobs_per_gpu, spec.retries) == ([1], [], 4, 3)
    assert list(launch.spec(free).gpu_choice) == [0, 1]
    assert spec.group == f"workspace:{config.file}"
    at = list(spec.command).index("--")
    assert list(spec.command)[at + 1 :] == ["/usr/bin/python3", "train.py", "--config_path", str(pinned.path)]
    assert f"marker={config.home}/out/a_completed.txt" in spec.command


def test_conda_and_a_line_before(config: Config) -> None:
    config = configured(config.home, conda_env="torch", pre_command="module load cuda")
    (task, *_) = all_tasks(config)
    words = Launch(config, Path("/r"), 1, (0,), "/opt/conda").program(task)
    assert os.path.basename(words[0]) == "bash"
    assert words[2].startswith("module load cuda\n")
    assert words[4:] == [
        "/opt/conda",
        "run",
        "--no-capture-output",
        "-n",
        "torch",
        "python",
        "train.py",
        "--config_path",
        str(task.path),
    ]
    assert find_conda(configured(config.home, conda_env="''"), {"PATH": ""}) == ("", "")
    assert "conda is not installed" in find_conda(config, {"PATH": ""})[1]


def test_where_a_script_is_meant(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    home = config.home
    monkeypatch.setenv("HOME", str(home))
    (home / "deep").mkdir()
    (home / "train.py").touch()
    assert script(configured(home)) == "train.py"
    assert script(configured(home, work_dir="deep")) == f"{home}/train.py"
    (home / "deep" / "train.py").touch()
    assert script(configured(home, work_dir="deep")) == f"{home}/train.py"
    (home / "deep" / "other.py").touch()
    assert script(configured(home, work_dir="deep", script_path="other.py")) == "other.py"
    assert script(configured(home, script_path="~/train.py")) == f"{home}/train.py"
    assert script(configured(home, script_path="nowhere.py")) == "nowhere.py"


def test_a_conda_environment_by_its_path(config: Config) -> None:
    config = configured(config.home, conda_env="envs/${task_name}")
    words = Launch(config, Path("/r"), 1, (0,), "/opt/conda").program(all_tasks(config)[0])
    assert words[:6] == ["/opt/conda", "run", "--no-capture-output", "-p", f"{config.home}/envs/exp", "python"]


def test_names_that_a_job_may_have() -> None:
    assert job_name("a b.c") == "a b.c"
    assert job_name("a/'b'$\n") == "a__b___"
    assert job_name(" ") == "config"
    assert len(job_name("x" * 300)) == 200


def test_too_long_a_name(config: Config) -> None:
    (config.path("config_dir") / f"{'x' * 240}.yml").touch()
    with pytest.raises(InputError, match="is too long"):
        all_tasks(config)


def test_when_each_may_be_done() -> None:
    names = itertools.count()

    def task(
        state: TaskState, time_s: float | None = None, eta_s: float | None = None, step: int | None = None,
        total: int | None = None,
    ) -> TaskView:  # fmt: skip
        progress = ProgressView(step, total, eta_s) if step is not None or eta_s is not None else None
        return TaskView(name=str(next(names)), state=state, time_s=time_s, progress=progress)

    tasks = [task("done", 10.0), task("running", 4.0), task("running", 4.0, 20.0), *(task("waiting") for _ in range(3))]
    assert [each.eta_s for each in estimate(tasks, slots=2)] == [None, 6.0, 20.0, 16.0, 26.0, 30.0]
    unknown = [task("running", 4.0), task("waiting"), task("running", 4.0, step=2, total=8), task("running", 1, step=0)]
    assert [each.eta_s for each in estimate(unknown, slots=2)] == [None, None, 12.0, None]
