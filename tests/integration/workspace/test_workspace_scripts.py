"""The scripts in `src/scripts/scheduler`: the command lines that people know, typed in a shell."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.local_scheduler import until
from support.running.workspaces import Desk, Folder, desk
from weft.workspace import templates

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ROOT / "src" / "scripts" / "scheduler"
CONFIG = """task_name: "my_experiment"
work_dir: "{root}"
config_dir: "configs"
script_path: "train.py"
python_env: "{python}"
max_jobs_per_gpu: 2
gpu_count: 2
conda_env: ""
output_dir: "out"
session_backend: none
log_dir: "{root}/logs"
startup_delay: 0
"""
TRAIN = """import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--config_path", required=True)
path = parser.parse_args().config_path
print("GPU", os.environ["CUDA_VISIBLE_DEVICES"], open(path).read())
"""


@pytest.fixture
def at() -> Iterator[Desk]:
    with desk() as made:
        made.site.env["PATH"] = f"{Path(sys.executable).parent}:{made.site.env['PATH']}"
        yield made


def shell(at: Desk, line: str, folder: Path, *, code: int = 0) -> str:
    done = subprocess.run(
        ["sh", "-c", line], cwd=folder, env=at.site.env, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def fill(at: Desk, home: Path, *names: str) -> Folder:
    (home / "scheduler_config.yml").write_text(CONFIG.format(root=at.root, python=sys.executable))
    (home / "train.py").write_text(TRAIN)
    for name in names:
        (home / "configs").mkdir(exist_ok=True)
        (home / "configs" / f"{name}.yml").write_text(f"task_name: {name}\n")
    return Folder(at.site, home)


def test_a_workspace_from_setup_to_kill_all(at: Desk) -> None:
    home = at.root / "experiments" / "image classification"
    shell(at, f"{SCRIPTS}/setup_workspace.sh {shlex.quote(str(home))}", at.root)
    assert sorted(path.name for path in home.iterdir()) == ["configs", "out", "scheduler.sh", "scheduler_config.yml"]
    assert "already" in shell(at, f"./setup_workspace.sh {shlex.quote(str(home))}", SCRIPTS, code=2)
    shell(at, f"./setup_workspace.sh {shlex.quote(str(home))} --force", SCRIPTS)
    here = fill(at, home, "exp1", "exp2", "exp3")
    shell(at, './scheduler.sh start "exp1.yml,exp2.yml,exp3.yml" "0,0,1"', home)
    assert here.until_over() == {"exp1": "done", "exp2": "done", "exp3": "done"}
    assert [task["gpu"] for task in here.status()["tasks"]] == [0, 0, 1]
    assert "3 done" in shell(at, "./scheduler.sh status", home)
    assert "exp1_completed.txt" in shell(at, "ls -la out/", home)
    assert "GPU 1 task_name: exp3" in (at.root / "logs" / "train_logs" / "exp3.log").read_text()
    assert "complete, skipped: exp1, exp2, exp3" in shell(at, "./scheduler.sh start", home)
    for command, said in (
        ("stop", "stopped"), ("config", "my_experiment"), ("help", "kill-all"), ("kill-all", "ended 0 tasks"),
    ):  # fmt: skip
        assert said in shell(at, f"./scheduler.sh {command}", home)


def test_the_main_script_takes_a_config_file_and_a_workspace(at: Desk) -> None:
    home = at.root / "nlp_project"
    shell(at, f"{SCRIPTS}/setup_workspace.sh nlp_project", at.root)
    here = fill(at, home, "exp1")
    main = f"{SCRIPTS}/scheduler_main.sh"
    shell(at, f"{main} {home}/scheduler_config.yml {home} start exp1.yml 1", Path("/"))
    assert here.until_over() == {"exp1": "done"}
    assert "1 done" in shell(at, f"{main} nlp_project/scheduler_config.yml nlp_project status", at.root)
    assert "usage: scheduler_main.sh CONFIG_FILE WORKSPACE_DIR COMMAND" in shell(at, main, at.root, code=2)
    assert "there is no" in shell(at, f"{main} none.yml {home} status", at.root, code=2)


def test_a_workspace_from_copied_templates_finds_its_project(at: Desk) -> None:
    project = at.root / "project"
    shutil.copytree(SCRIPTS, project / "src" / "scripts" / "scheduler")
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / ".venv" / "bin" / "weft").symlink_to(Path(sys.executable).parent / "weft")
    home = project / "workspace" / "ddim_demo"
    home.mkdir(parents=True)
    at.site.env["PATH"] = os.pathsep.join(
        part for part in at.site.env["PATH"].split(os.pathsep) if not os.path.exists(f"{part}/weft")
    )
    shell(at, "cp ../../src/scripts/scheduler/scheduler_wrapper_template.sh ./scheduler.sh", home)
    shell(at, "cp ../../src/scripts/scheduler/scheduler_config_template.yml ./scheduler_config.yml", home)
    assert "my_experiment" in shell(at, "./scheduler.sh config", home)
    here = fill(at, home, "a")
    shell(at, "./scheduler.sh start", home)
    until(lambda: here.states() == {"a": "done"})


def test_the_template_of_the_config_has_every_key() -> None:
    found = (SCRIPTS / "scheduler_config_template.yml").read_text()
    assert found == templates.config("my_experiment"), "weft workspace template config prints it"


def test_a_parser_in_the_workspace_turns_the_file_into_keys(at: Desk) -> None:
    home = at.root / "own"
    shell(at, f"{SCRIPTS}/setup_workspace.sh {home}", at.root)
    here = fill(at, home, "a")
    (home / "own_format.py").write_text(
        "import yaml\n"
        "def parse_config(values, path):\n"
        "    base = yaml.safe_load(open(values['base']))\n"
        "    return {**base, 'task_name': values['experiment']['name'], 'max_jobs_per_gpu': 1 + 2}\n"
    )
    (home / "scheduler_config.yml").rename(home / "base.yml")
    config = home / "scheduler_config.yml"
    config.write_text(f"config_parser: own_format:parse_config\nbase: {home}/base.yml\nexperiment: {{name: mine}}\n")
    shown = shell(at, "./scheduler.sh config", home)
    assert "mine" in shown
    assert "config_parser own_format:parse_config" in shown
    shell(at, "./scheduler.sh start", home)
    assert here.until_over() == {"a": "done"}
    assert [gpu["limit"] for gpu in here.status()["gpus"]] == [3, 3]


@pytest.mark.parametrize(
    ("parser", "said"),
    [
        ("def parse(values, path): return {'task_nam': 'x'}", "task_nam"),
        ("def parse(values, path): return [1]", "it returned list"),
        ("def parse(values, path): raise KeyError('model')", "KeyError: 'model'"),
        ("def other(): pass", "bad config_parser 'own:parse'"),
    ],
)
def test_a_parser_that_fails_is_named(at: Desk, parser: str, said: str) -> None:
    home = at.root / "own"
    home.mkdir()
    (home / "own.py").write_text(parser)
    (home / "scheduler_config.yml").write_text("config_parser: own:parse\nmodel: x\n")
    failed = at.site.weft("workspace", "--dir", str(home), "config")
    assert failed.returncode == 2
    assert said in failed.stderr
    assert "own:parse" in failed.stderr
    assert "Traceback" not in failed.stderr
