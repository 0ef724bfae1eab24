from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from support.train_env import Inside


def test_a_checkpoint_is_recorded_and_told(job: Inside) -> None:
    job.run("train.progress(40, 100)\nopen('model.pt', 'w').close()\ntrain.checkpoint('model.pt')")
    assert job.latest["path"] == str(job.root / "model.pt")
    assert job.latest["step"] == 40
    told = job.scheduler.rest()[-1]
    assert told["checkpoint"] == job.latest
    assert told["step"] == 40


def test_the_next_run_finds_it(job: Inside) -> None:
    (job.root / "model.pt").touch()
    assert job.run("print(train.resume_path())") == "None"
    job.run("train.checkpoint('model.pt')")
    assert job.run("print(train.resume_path())") == str(job.root / "model.pt")


def test_one_that_was_removed_is_not_offered(job: Inside) -> None:
    (job.root / "model.pt").touch()
    job.run("train.checkpoint('model.pt')")
    (job.root / "model.pt").unlink()
    assert job.run("print(train.resume_path())") == "None"


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"path": 3}', '{"path": null}', "\0\0"])
def test_a_record_that_makes_no_sense_is_none(job: Inside, content: str) -> None:
    (job.root / "checkpoints" / "latest.json").write_text(content)
    assert job.run("print(train.resume_path())") == "None"


def test_directories_and_names_of_any_kind_are_checkpoints_too(job: Inside) -> None:
    (job.root / "epoch 3 ü").mkdir()
    job.run("import pathlib\ntrain.checkpoint(pathlib.Path('epoch 3 \\u00fc'))")
    assert job.run("import sys\nsys.stdout.buffer.write(train.resume_path().encode())").endswith("epoch 3 ü")


def test_a_record_that_cannot_be_written_is_a_warning_not_the_end(job: Inside) -> None:
    (job.root / "checkpoints").rmdir()
    process = job.start("train.checkpoint('model.pt')\nprint('went on')")
    out, err = process.communicate(timeout=10)
    assert process.returncode == 0
    assert out == "went on\n"
    assert "weft could not record a checkpoint" in err


def test_done_creates_the_marker(job: Inside) -> None:
    job.run("train.done()")
    assert job.done.exists()


def test_the_last_step_is_as_good_as_done(job: Inside) -> None:
    job.run("train.progress(99, 100)")
    assert not job.done.exists()
    job.run("train.progress(99, 100)\ntrain.progress(100)")
    assert job.done.exists()
    assert job.scheduler.rest()[-1]["step"] == 100


def test_a_job_that_goes_on_was_not_done(job: Inside) -> None:
    job.run("train.progress(100, 100)\ntrain.progress(1, 100)")
    assert not job.done.exists()


def test_a_job_that_knows_it_must_stop_says_itself_whether_it_is_done(job: Inside) -> None:
    """Steps may be those of an epoch: an exit with 0 after it was told to stop must not end a job early."""
    (job.root / "preempt").touch()
    job.run("train.progress(100, 100)\nassert train.should_stop()")
    assert not job.done.exists()
    job.run("train.progress(100, 100)\ntrain.done()\nassert train.should_stop()")
    assert job.done.exists()


def test_importing_it_loads_nothing_of_weft_and_little_else() -> None:
    script = "import sys; before = set(sys.modules); import weft.train; print(*set(sys.modules) - before)"
    env = {**os.environ, "PYTHONPATH": str(Path(weft.__file__).resolve().parents[1])}
    done = subprocess.run([sys.executable, "-S", "-c", script], env=env, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    rooms = ("checkpoints", "reporting", "run", "sender", "stopping")
    ours = {name for name in loaded if name.startswith("weft")}
    assert ours == {"weft", "weft.train", *(f"weft.train.{room}" for room in rooms)}
    assert not loaded & {"typing", "json", "threading", "socket", "asyncio", "re", "logging", "signal"}
