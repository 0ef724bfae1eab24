"""The commands of a workspace, as far as they need no task."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli_call import Capture, as_json, fails
from support.running.local_scheduler import is_alive, until
from support.running.workspaces import desk
from weft.cli.main import main

pytestmark = pytest.mark.usefixtures("here")


def test_init_config_and_status_of_a_new_workspace(capsys: Capture, here: Path) -> None:
    assert main(["workspace", "init", "exp"]) == 0
    assert "created scheduler.sh, scheduler_config.yml, configs/, out/" in capsys.readouterr().out
    found = as_json(capsys, "workspace", "--dir", "exp", "config")
    assert found["keys"]["task_name"] == {"value": "exp", "from": f"{here}/exp/scheduler_config.yml:5"}
    assert found["keys"]["max_jobs_per_gpu"] == {"value": 2, "from": "default"}
    assert found["keys"]["config_dir"] == {"value": f"{here}/exp/configs", "from": "default"}
    assert found["keys"]["python_env"] == {"value": sys.executable, "from": "default"}
    found = as_json(capsys, "ws", "--dir", "exp", "status")
    assert (found["task_name"], found["tasks"], found["stopped"]) == ("exp", [], False)
    assert main(["workspace", "--dir", "exp", "status"]) == 0
    assert capsys.readouterr().out == "exp: 0 waiting, 0 running, 0 done, 0 failed\n"
    assert "--force converts it" in fails(capsys, "workspace", "init", "exp")
    assert main(["workspace", "init", "--force", "exp"]) == 0
    assert main(["workspace", "--dir", "exp", "stop"]) == 0


def test_help_is_printed_in_three_ways(capsys: Capture) -> None:
    texts = []
    for words in (["workspace"], ["workspace", "help"], ["workspace", "--help"]):
        assert main(words) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] == texts[2]
    assert all(command in texts[0] for command in ("init", "start", "status", "stop", "kill-all", "config", "template"))


def test_templates_are_what_init_makes(capsys: Capture, here: Path) -> None:
    main(["workspace", "init", "my_task"])
    capsys.readouterr()
    for what, name in (("wrapper", "scheduler.sh"), ("config", "scheduler_config.yml")):
        assert main(["workspace", "template", what]) == 0
        assert capsys.readouterr().out == (here / "my_task" / name).read_text()


def test_what_is_wrong_is_told_with_file_and_line(capsys: Capture, here: Path) -> None:
    assert "there is no scheduler_config.yml in" in fails(capsys, "workspace", "status")
    (here / "scheduler_config.yml").write_text("task_name: exp\nmax_job_per_gpu: 3\n")
    said = fails(capsys, "workspace", "status")
    assert f"{here}/scheduler_config.yml:2: unknown key of the config 'max_job_per_gpu'\n" in said
    assert "\n  the nearest is max_jobs_per_gpu;" in said
    said = fails(capsys, "workspace", "config", "--json")
    assert json.loads(said)["error"]["code"] == "unknown-name"
    assert "there is no other.yml in" in fails(capsys, "workspace", "--config", "other.yml", "config")
    assert "unknown command 'strat'\n  the nearest is start; see" in fails(capsys, "workspace", "strat")


def test_start_says_what_every_task_would_fail_of() -> None:
    with desk() as at:
        folder = at.folder("exp", session_backend="none")
        folder.configs(a="true")
        folder.configure(script_path="nowhere.py")
        assert "there is no nowhere.py in" in folder.weft("start", check=False).stderr
        folder.configure(script_path="task.sh", python_env="nowhere")
        done = folder.weft("start", check=False)
        assert "scheduler_config.yml:2: python_env: there is no program nowhere" in done.stderr
        folder.configure(python_env="sh", work_dir="nowhere")
        assert "work_dir" in folder.weft("start", check=False).stderr
        folder.configure(work_dir=".", config_dir="nowhere")
        assert "is not a folder" in folder.weft("start", check=False).stderr
        assert folder.ran() == []


def test_kill_all_asks_on_a_terminal() -> None:
    with desk() as at:
        folder = at.folder("exp", session_backend="none")
        folder.configs(a="exec sleep 60")
        folder.weft("start")
        ((_, _, pid),) = folder.until_ran(1)
        for answer, alive in (("n\n", True), ("y\n", False)):
            ours, theirs = pty.openpty()
            os.write(ours, answer.encode())
            words = [sys.executable, "-m", "weft", "workspace", "--dir", str(folder.home), "kill-all"]
            done = subprocess.run(
                words, env=at.site.env, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, timeout=60, check=False
            )
            said = os.read(ours, 4096).decode()
            os.close(theirs)
            os.close(ours)
            assert "end 1 task of exp, and close its sessions? [y/N]" in said
            assert done.returncode == alive
            until(lambda alive=alive: is_alive(int(pid)) == alive)  # type: ignore[misc]
