"""The keys of scheduler_config.yml, and the errors of wrong ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.workspace import templates
from weft.workspace.config import Config, parse, read
from weft.workspace.keys import KEYS
from weft.workspace.launch import interpreter

DEFAULTS = {
    "work_dir": ".", "config_dir": "configs", "script_path": "train.py", "output_dir": "out",
    "scheduler_session_suffix": "_scheduler", "worker_prefix": "", "max_jobs_per_gpu": 2, "gpu_count": 2,
    "check_interval": 30, "startup_delay": 1, "command_delay": 0.5, "log_dir": "/tmp", "enable_logging": True,
    "max_log_mb": 512,
    "conda_env": "base", "cuda_visible_devices_var": "CUDA_VISIBLE_DEVICES", "config_pattern": "*.yml",
    "auto_restart_failed": False, "max_retries": 3, "cleanup_on_complete": False,
}  # fmt: skip


def config(text: str) -> Config:
    return parse(text, Path("/ws"), Path("/ws/scheduler_config.yml"))


def test_defaults_and_where_they_come_from() -> None:
    found = config("task_name: exp\n\nmax_jobs_per_gpu: 4\n")
    assert {key: found.values[key] for key in DEFAULTS} == {**DEFAULTS, "max_jobs_per_gpu": 4}
    assert found.origins["max_jobs_per_gpu"] == "/ws/scheduler_config.yml:3"
    assert {origin for key, origin in found.origins.items() if key not in ("task_name", "max_jobs_per_gpu")} == {
        "default"
    }
    assert (found.prefix, found.scheduler_session) == ("exp", "exp_scheduler")
    assert interpreter(found, conda="") == sys.executable
    assert interpreter(found, conda="/bin/conda") == "python"


def test_paths_are_relative_to_the_workspace_and_know_the_name() -> None:
    found = config(
        "task_name: exp\nlog_dir: /var/log/${task_name}\noutput_dir: results/${task_name}\npython_env: env/bin/python"
    )
    assert found.path("log_dir") == Path("/var/log/exp")
    assert found.path("output_dir") == Path("/ws/results/exp")
    assert found.path("work_dir") == Path("/ws")
    assert interpreter(found, conda="") == "/ws/env/bin/python"


def test_empty_values_where_they_mean_something() -> None:
    found = config("task_name: exp\nconda_env:\nworker_prefix: ''\ncheck_interval: 0.5\nenable_logging: off\n")
    assert (found.text("conda_env"), found.number("check_interval"), found.is_on("enable_logging")) == ("", 0.5, False)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("work_dir: .", 1, "task_name is missing"),
        ("task_name: exp\nmax_job_per_gpu: 2", 2, "'max_job_per_gpu'\n  the nearest is max_jobs_per_gpu;"),
        ("task_name: exp\nmax_retry:\n  - 3", 2, "the nearest is max_retries"),
        ("task_name: exp\nconfig_pattern: *.yml", 2, 'quote a value that begins with a star: config_pattern: "*.yml"'),
        ('task_name: exp\nmax_jobs_per_gpu: "2"', 2, "without quotes: max_jobs_per_gpu: 2"),
        ("task_name: exp\nenable_logging: 'yes'", 2, "without quotes: enable_logging: yes"),
        ("# task_name: exp\n", 1, "no key is set"),
        ("task_name: exp\nmax_jobs_per_gpu: many", 2, "bad max_jobs_per_gpu: 'many'"),
        ("task_name: exp\nmax_jobs_per_gpu: 0", 2, "expected a whole number from 1 to 1,000"),
        ("task_name: exp\ngpu_count: 1.5", 2, "expected a whole number from 1"),
        ("task_name: exp\n\nenable_logging: 1", 3, "expected true or false, found '1'"),
        ("task_name: exp\nstartup_delay: -1", 2, "expected seconds, from 0 to"),
        ("task_name: exp\nstartup_delay: soon", 2, "expected seconds"),
        ("task_name: exp\nscript_path: [a]", 2, "found a list"),
        ("task_name: exp\nlog_dir:", 2, "expected text, found nothing"),
        ("task_name: exp\nlog_dir: ${taskname}", 2, "only ${task_name} is filled in"),
        ("task_name: a/b", 1, "letters, digits"),
        ("task_name: exp\ncuda_visible_devices_var: A-B", 2, "a variable has letters"),
        ("task_name: exp\nworker_prefix: a/b", 2, "remove the slash"),
        ("task_name: exp\ntask_name: exp", 2, "occurs twice"),
        ("task_name: [", 1, "not YAML"),
        ("", 1, "no key is set"),
        ("- a", 1, "a mapping"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(InputError) as told:
        config(text)
    assert says in str(told.value)
    assert told.value.where == f"/ws/scheduler_config.yml:{line}"


def test_workspaces_that_share_a_config_file_are_two(tmp_path: Path) -> None:
    shared = tmp_path / "shared.yml"
    shared.write_text("task_name: exp\n")
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "scheduler_config.yml").symlink_to(shared)
    linked = [read(tmp_path / name).group for name in ("x", "y")]
    assert linked == [read(tmp_path / name, str(shared)).group for name in ("x", "y")]
    assert linked[0] != linked[1]
    assert read(tmp_path, "shared.yml").group == f"workspace:{tmp_path}/shared.yml"


def test_the_template_has_every_key_and_means_the_defaults() -> None:
    text = templates.config("exp")
    assert all(f"\n# {key.name}: " in text for key in KEYS if key.name != "task_name")
    assert config(text).values == config("task_name: exp").values
    uncommented = text.replace("\n# ", "\n").replace("A Weft workspace", "# A Weft workspace")
    lines = [line for line in uncommented.splitlines() if line.partition(":")[0] in {key.name for key in KEYS}]
    assert config("\n".join(lines)).values == config("task_name: exp").values


@pytest.mark.parametrize(
    "value", ["", "yes", "007", "a b", 'it\'s "so"', "-x", "#x", "ünï: [", "1e3", "~", "null", "/tmp/x"]
)
def test_values_are_written_so_that_they_are_read_the_same(value: str) -> None:
    text = templates.config("exp", {"worker_prefix": value.replace("/", ""), "pre_command": value})
    assert config(text).values["pre_command"] == value


def test_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no scheduler_config\.yml in"):
        read(tmp_path)
    with pytest.raises(InputError, match="is not a folder"):
        read(tmp_path / "nowhere")
