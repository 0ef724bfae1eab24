"""Waiting jobs changed in an editor, and ended jobs restarted under their id."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.running.local_scheduler import until
from support.weft_cli import Weft

HELD = ("--hold", "--gpus", "0")


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An editor that runs the lines of this file, one at each call, as a sed script on the job; then nothing."""
    script = tmp_path / "editor.sh"
    todo = tmp_path / "todo"
    script.write_text(
        f'#!/bin/sh\ncp "$1" {tmp_path}/seen\nline=$(sed -n 1p {todo})\nsed -i 1d {todo}\n'
        'if [ -n "$line" ]; then sed -i "$line" "$1"; fi\n'
    )
    script.chmod(0o700)
    todo.write_text("")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"sh {script}")
    return todo


def test_a_job_becomes_what_is_saved(weft: Weft, editor: Path) -> None:
    job = weft.submit(*HELD, "--time", "2h", "--env", "SECRET=xyzzy", "--param", "lr=1", "--", "echo", "{params.lr}")
    before = weft.show(job)
    editor.write_text("s/^time: .*/priority: 3/; s/- echo/- printf/\n")
    assert weft("edit", job).out == f"changed {job}\n"
    after = weft.show(job)
    assert (after["command"], after["priority"], after["time_limit_s"]) == (["printf", "1"], 3, None)
    assert "xyzzy" not in (editor.parent / "seen").read_text()
    changed = {"command", "priority", "time_limit_s", "spec", "reason", "time_s"}
    assert {key: value for key, value in before.items() if key not in changed} == {
        key: value for key, value in after.items() if key not in changed
    }
    weft("release", job)
    weft("wait", job)
    assert weft("logs", job).out == "1"


def test_its_environment_stays(weft: Weft, editor: Path) -> None:
    job = weft.submit(*HELD, "--env", "KEPT=1", "--", "sh", "-c", "echo $KEPT $MORE")
    editor.write_text("$ a env: {MORE: '2'}\n")
    weft("edit", job)
    weft("release", job)
    weft("wait", job)
    assert weft("logs", job).out == "1 2\n"


def test_a_job_that_counts_no_cpu_still_counts_none(weft: Weft, editor: Path) -> None:
    job = weft.submit(*HELD, "--cpus", "0", "--", "true")
    assert weft.show(job)["cpus"] == 0
    editor.write_text("s/^name:.*/priority: 3/\n")
    weft("edit", job)
    assert (weft.show(job)["cpus"], weft.show(job)["priority"]) == (0, 3)


@pytest.mark.usefixtures("editor")
def test_a_file_left_as_it_is_changes_nothing(weft: Weft) -> None:
    job = weft.submit(*HELD, "--", "true")
    before = weft.show(job)
    assert weft("edit", job).err == f"weft: job {job} is unchanged\n"
    assert weft.json("edit", job)["jobs"] == []
    assert weft.show(job)["spec"] == before["spec"]


@pytest.mark.parametrize(
    ("mistake", "error"),
    [
        ("nmae: x", "nmae"),
        ("mem: 99999G", "RAM"),
        ("array: 0-9", "array"),
        ("after: '99999'", "99999"),
    ],
)
def test_after_a_mistake_the_editor_opens_again_with_the_error(
    weft: Weft, editor: Path, mistake: str, error: str
) -> None:
    job = weft.submit(*HELD, "--name", "first", "--", "true")
    editor.write_text(f"s/^name:.*/{mistake}/\ns/^{mistake}/name: second/\n")
    said = weft("edit", job)
    seen = (editor.parent / "seen").read_text()
    assert error in said.err
    assert seen.startswith("#")
    assert error in seen.splitlines()[0] + seen.splitlines()[1]
    assert weft.show(job)["name"] == "second"


def test_a_mistake_that_is_left_changes_nothing(weft: Weft, editor: Path) -> None:
    job = weft.submit(*HELD, "--name", "first", "--", "true")
    editor.write_text("s/^name:.*/nmae: x/\n")
    assert f"job {job} is unchanged" in weft("edit", job).err
    assert weft.show(job)["name"] == "first"


def test_an_editor_that_fails_changes_nothing(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    job = weft.submit(*HELD, "--", "true")
    monkeypatch.setenv("VISUAL", "false")
    assert "ended with exit code 1" in weft("edit", job, code=2).err
    monkeypatch.setenv("VISUAL", "no-such-editor")
    assert "set EDITOR" in weft("edit", job, code=2).err


@pytest.mark.parametrize(
    ("editor", "error"), [("rm", "left no file"), (r"""sh -c 'printf "\377" > $0'""", "not UTF-8 text")]
)
def test_a_file_that_cannot_be_read_changes_nothing(
    weft: Weft, monkeypatch: pytest.MonkeyPatch, editor: str, error: str
) -> None:
    job = weft.submit(*HELD, "--", "true")
    monkeypatch.setenv("VISUAL", editor)
    assert error in weft("edit", job, code=2).err


def test_a_running_or_ended_job_cannot_be_edited(weft: Weft, editor: Path) -> None:
    job = weft.submit("--gpus", "0", "--", "true")
    weft("wait", job)
    editor.write_text("s/^name:.*/name: x/\n")
    assert "only a waiting job can be edited" in weft("edit", job, code=6).err


def test_a_restart_in_place_keeps_the_id_and_goes_on_from_the_checkpoint(weft: Weft) -> None:
    read = "f=$WEFT_CKPT_DIR/step; n=$(cat $f 2>/dev/null || echo 0); echo $((n+1)) > $f"
    script = f"{read}; echo run $WEFT_RUN step $n; exit $((1-n))"
    job = weft.submit("--gpus", "0", "--retries", "0", "--", "sh", "-c", script)
    weft("wait", job, code=1)
    assert weft("restart", "--in-place", job).out == f"restarted job {job}\n"
    weft("wait", job)
    found = weft.show(job)
    assert (found["status"], found["run"], found["failures"]) == ("done", 2, 0)
    assert weft("logs", job).out == "run 2 step 1\n"
    assert weft("logs", "--run", "1", job).out == "run 1 step 0\n"


def test_a_job_that_has_not_ended_is_not_restarted_in_place(weft: Weft) -> None:
    job = weft.submit(*HELD, "--", "true")
    assert "cancel it first" in weft("restart", "--in-place", job, code=6).err
    weft("cancel", job)
    weft("restart", "--in-place", job)
    weft("wait", job)


def test_a_job_is_suspended_and_resumed(weft: Weft) -> None:
    job = weft.submit("--gpus", "0", "--name", "ticking", "--", "sh", "-c", "while :; do date +%N; sleep 0.05; done")
    until(lambda: weft.show(job)["status"] == "running")
    assert weft("suspend", job).out == f"suspended {job}\n"
    assert (weft.show(job)["state"], weft.show(job)["status"]) == ("S", "running")
    assert [row["id"] for row in weft.json("queue", "-t", "S")["jobs"]] == [job]
    assert [row["id"] for row in weft.json("queue", "-t", "suspended")["jobs"]] == [job]
    assert not weft.json("queue", "-t", "running")["jobs"]
    assert "suspended already" in weft("suspend", job, code=6).err
    assert weft("resume", job).out == f"resumed {job}\n"
    assert weft.show(job)["state"] == "R"
    assert "not suspended" in weft("resume", job, code=6).err
    weft("cancel", "-y", job)


def test_a_job_that_waits_is_not_suspended_and_a_held_one_not_resumed(weft: Weft) -> None:
    job = weft.submit(*HELD, "--", "true")
    assert "weft hold keeps" in weft("suspend", job, code=6).err
    assert "weft release" in weft("resume", job, code=6).err
    weft("cancel", job)
    assert weft("suspend", job, code=6).err.strip().endswith("only a running job can be suspended")
