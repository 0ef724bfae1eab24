"""`weft config`: the settings in effect, and where they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli_call import Capture, as_json, fails
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
