"""A machine on which no GPU is known, and one on which nothing was ever run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.running.local_scheduler import site
from weft.cli.main import main


def test_gpus_are_listed_before_any_scheduler_was_started(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = here / ".state" / "weft" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"gpus": "0,1", "models": "RTX3090,RTX3090", "memories": "24576,24576"}))
    assert main(["gpus"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[1:4] for line in out.splitlines()[1:]] == [
        ["0", "RTX3090", "24576"],
        ["1", "RTX3090", "24576"],
    ]
    assert "these are the GPUs of this machine" in err
    assert main(["gpus", "--json"]) == 0
    assert [gpu["gpu"] for gpu in json.loads(capsys.readouterr().out)["gpus"]] == [0, 1]


def test_the_first_example_of_the_help_works_without_gpus() -> None:
    with site({"gpus": "none"}) as made:
        done = made.weft("run", "--", "echo", "hello")
        assert (done.returncode, done.stdout) == (0, "hello\n")
        assert "no GPU is known here, so the job asks for none; --gpus N asks for N" in done.stderr
        found = json.loads(made.weft("submit", "--dry-run", "--json", "--", "/bin/echo", "hello").stdout)
        assert (found["jobs"][0]["name"], len(found["notes"])) == ("echo", 1)
        refused = made.weft("run", "--gpus", "1", "--", "true")
        assert (refused.returncode, "declare some with weft up --gpus" in refused.stderr) == (2, True)
        too_much = made.weft("run", "--gpus", "0", "--mem", "999T", "--", "true")
        assert too_much.returncode == 2
        assert "MB of RAM; the largest node has" in too_much.stderr
        assert "declare some" not in too_much.stderr


def test_the_help_lists_commands_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert heads == ["jobs:", "look:", "this machine:", "cluster:", "services:", "simulate:"]
    assert max(map(len, lines)) <= 100
