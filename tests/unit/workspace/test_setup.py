"""Creation of a workspace, and conversion of an existing folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.workspace.config import read
from weft.workspace.setup import create_workspace
from weft.workspace.tasks import all_tasks

OLD = """
scheduler:
  max_jobs_per_gpu: 3   # as before
  check_interval: 10
task_name: old_exp
gpu_count: lots
colour: green
config_dir: my_configs
log_dir: /tmp/${task_name}
"""


def test_a_new_one_can_be_read_and_has_nothing_to_run(tmp_path: Path) -> None:
    done = create_workspace(str(tmp_path / "my exp!"))
    home = tmp_path / "my exp!"
    assert done.made == ["scheduler.sh", "scheduler_config.yml", "configs/", "out/", "configs/example.yml.sample"]
    assert os.access(home / "scheduler.sh", os.X_OK)
    assert len((home / "scheduler.sh").read_text().splitlines()) < 10
    config = read(home)
    assert config.task_name == "my_exp_"
    assert all_tasks(config) == []
    with pytest.raises(
        InputError, match=r"has scheduler\.sh and scheduler_config\.yml already\n  weft workspace init --force"
    ):
        create_workspace(str(home))


def test_force_converts_and_keeps_what_it_replaces(tmp_path: Path) -> None:
    (tmp_path / "scheduler_config.yml").write_text(OLD)
    (tmp_path / "scheduler.sh").write_text("#!/bin/bash\n# a thousand lines\n")
    (tmp_path / "my_configs").mkdir()
    (tmp_path / "my_configs" / "a.yml").touch()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a_completed.txt").write_text("done")
    done = create_workspace(str(tmp_path), force=True)
    assert done.kept == ["scheduler.sh.bak", "scheduler_config.yml.bak"]
    assert (tmp_path / "scheduler_config.yml.bak").read_text() == OLD
    assert "a thousand lines" in (tmp_path / "scheduler.sh.bak").read_text()
    assert done.taken == ["task_name", "config_dir", "max_jobs_per_gpu", "check_interval", "log_dir"]
    assert [reason.partition(":")[0] for reason in done.dropped] == ["gpu_count", "colour"]
    config = read(tmp_path)
    assert (config.task_name, config.whole("max_jobs_per_gpu"), config.number("check_interval")) == ("old_exp", 3, 10)
    assert config.path("log_dir") == Path("/tmp/old_exp")
    assert [task.name for task in all_tasks(config)] == ["a"]
    assert (tmp_path / "out" / "a_completed.txt").read_text() == "done"
    assert not (tmp_path / "configs").exists()


def test_a_config_that_was_read_with_grep_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotes where they do not matter to a shell, none where they do to YAML."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    old = """task_name: "exp"
max_jobs_per_gpu: "4"
enable_logging: 'no'
startup_delay: "2.5"
config_pattern: *.json   # all of them
python_env: "3.11"
output_dir: ~/results/${task_name}
log_dir: /logs/${user}
"""
    home = tmp_path / "ws"
    home.mkdir()
    (home / "scheduler_config.yml").write_text(old)
    done = create_workspace(str(home), force=True)
    assert done.dropped == ["log_dir: only ${task_name} is filled in"]
    config = read(home)
    assert (config.task_name, config.whole("max_jobs_per_gpu"), config.is_on("enable_logging")) == ("exp", 4, False)
    assert (config.number("startup_delay"), config.text("config_pattern")) == (2.5, "*.json")
    assert config.text("python_env") == "3.11"
    assert config.path("output_dir") == tmp_path / "home" / "results" / "exp"
    assert config.path("output_dir").is_dir()
    assert sorted(path.name for path in home.iterdir()) == [
        "configs", "scheduler.sh", "scheduler_config.yml", "scheduler_config.yml.bak",
    ]  # fmt: skip
    assert f"{config.path('output_dir')}/" in done.made


def test_converting_again_changes_nothing_and_loses_nothing(tmp_path: Path) -> None:
    create_workspace(str(tmp_path))
    assert create_workspace(str(tmp_path), force=True).kept == []
    for number in (1, 2):
        (tmp_path / "scheduler.sh").write_text(f"mine {number}")
        create_workspace(str(tmp_path), force=True)
    assert (tmp_path / "scheduler.sh.bak").read_text() == "mine 1"
    assert (tmp_path / "scheduler.sh.2.bak").read_text() == "mine 2"


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "scheduler.sh").symlink_to(tmp_path / "precious")
    create_workspace(str(tmp_path / "ws"), force=True)
    assert (tmp_path / "precious").read_text() == "mine"
    assert not (tmp_path / "ws" / "scheduler.sh").is_symlink()


def test_an_old_config_that_is_no_yaml(tmp_path: Path) -> None:
    (tmp_path / "scheduler_config.yml").write_text("a: [")
    done = create_workspace(str(tmp_path), force=True)
    assert "all of scheduler_config.yml: not YAML" in done.dropped[0]
    assert read(tmp_path).whole("max_jobs_per_gpu") == 2


def test_settings_in_an_old_script_are_named(tmp_path: Path) -> None:
    script = '#!/bin/bash\nMAX_JOBS_PER_GPU=3\nexport PYTHON_ENV="/opt/py/bin/python"  # mine\nLOG_DIR=/logs\nOTHER=1\n'
    (tmp_path / "scheduler.sh").write_text(script)
    (tmp_path / "scheduler_config.yml").write_text("log_dir: /elsewhere\n")
    assert create_workspace(str(tmp_path), force=True).dropped == [
        "MAX_JOBS_PER_GPU=3 of scheduler.sh: set max_jobs_per_gpu in scheduler_config.yml",
        'PYTHON_ENV="/opt/py/bin/python" of scheduler.sh: set python_env in scheduler_config.yml',
    ]
    assert not create_workspace(str(tmp_path), force=True).dropped
