"""`weft config`: the settings in effect, and where they come from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.cli_call import Capture, as_json, fails
from support.weft_cli import Weft
from weft.cli.main import main


@pytest.fixture(autouse=True)
def own_config(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "config"))
    for name in ("WEFT_SCHEDULER", "WEFT_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_it_says_what_is_in_effect_and_why(capsys: Capture, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert as_json(capsys, "config")["settings"] == {
        "scheduler": {"value": "local", "origin": "default"},
        "shared": {"value": "off", "origin": "default"},
        "sharing": {"value": "prio", "origin": "default"},
        **{key: {"value": "", "origin": "default"} for key in ("policy", "memory", "time", "group", "notify")},
    }
    path = here / "config" / "weft" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("scheduler: gpu-head:7\n")
    found = as_json(capsys, "config", "show")
    assert found["file"] == str(path)
    assert found["settings"]["scheduler"] == {"value": "gpu-head:7", "origin": f"{path}:1"}
    monkeypatch.setenv("WEFT_SCHEDULER", "other:8")
    assert main(["config", "show", "--origin"]) == 0
    assert "other:8 (WEFT_SCHEDULER)" in capsys.readouterr().out


def test_a_mistake_in_the_file_stops_every_command_with_its_line(capsys: Capture, here: Path) -> None:
    path = here / "config" / "weft" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("sheduler: a\n")
    for words in (["config"], ["queue"], ["submit", "--", "true"]):
        assert f"{path}:1: unknown key of a config 'sheduler'" in fails(capsys, *words)
    assert main(["queue", "--scheduler", "local"]) == 0


def test_a_project_file_sets_defaults_of_jobs(weft: Weft, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "config"))
    (here / "config" / "weft").mkdir(parents=True)
    (here / "config" / "weft" / "config.yaml").write_text("memory: 300\ngroup: mine\n")
    inner = here / "project" / "deep" / "er"
    inner.mkdir(parents=True)
    project = here / "project" / "weft.yaml"
    project.write_text("memory: 200\ntime: 90s\n")
    monkeypatch.chdir(inner)
    found = weft.json("config")
    assert found["project"] == str(project)
    settings = {key: (each["value"], each["origin"]) for key, each in found["settings"].items()}
    assert settings["memory"] == ("200", f"{project}:1")
    assert settings["group"] == ("mine", f"{here}/config/weft/config.yaml:2")
    assert settings["notify"] == ("", "default")
    monkeypatch.setenv("WEFT_TIME", "80s")
    job = weft.show(weft.submit("--hold", "--gpus", "1", "--", "true"))
    assert (job["memory_mb"], job["time_limit_s"], job["spec"]["group"]) == (200, 80.0, "mine")
    job = weft.show(weft.submit("--hold", "--gpus", "1", "--memory", "100", "--group", "other", "--", "true"))
    assert (job["memory_mb"], job["spec"]["group"]) == (100, "other")
    (inner / "tasks.yaml").write_text("command: 'true'\nhold: true\ngpus: 1\nmemory: 150\n")
    job = weft.show(weft.submit("--config", "tasks.yaml"))
    assert (job["memory_mb"], job["spec"]["group"]) == (150, "mine")
    project.write_text("memory: much\n")
    assert f"{project}:1: memory" in weft.fails("submit", "--", "true")
    project.write_text("scheduler: elsewhere:1\n")
    assert "unknown key of a config 'scheduler'" in weft.fails("submit", "--", "true")


@pytest.mark.usefixtures("here")
def test_the_policy_of_a_simulation_comes_from_the_config(
    capsys: Capture, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert as_json(capsys, "sim", "demo")["policy"] == "fifo"
    (here / "weft.yaml").write_text("policy: srtf\n")
    assert as_json(capsys, "sim", "demo")["policy"] == "srtf"
    monkeypatch.setenv("WEFT_POLICY", "las")
    assert as_json(capsys, "sim", "demo")["policy"] == "las"
    assert as_json(capsys, "sim", "demo", "--policy", "sjf")["policy"] == "sjf"


def test_a_project_file_of_another_user_does_not_count(
    capsys: Capture, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "weft.yaml").write_text("group: theirs\n")
    assert as_json(capsys, "config")["settings"]["group"]["value"] == "theirs"
    if os.getuid() == 0:
        os.chown(here / "weft.yaml", 12345, 12345)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert as_json(capsys, "config")["settings"]["group"]["value"] == ""
