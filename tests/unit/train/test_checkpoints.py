from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import JobSite


def test_a_checkpoint_is_recorded_and_told(site: JobSite) -> None:
    site.run("train.progress(40, 100)\nopen('model.pt', 'w').close()\ntrain.checkpoint('model.pt')")
    assert site.latest["path"] == str(site.root / "model.pt")
    assert site.latest["step"] == 40
    told = site.scheduler.rest()[-1]
    assert told["checkpoint"] == site.latest
    assert told["step"] == 40


def test_the_next_run_finds_it(site: JobSite) -> None:
    (site.root / "model.pt").touch()
    assert site.run("print(train.resume_path())") == "None"
    site.run("train.checkpoint('model.pt')")
    assert site.run("print(train.resume_path())") == str(site.root / "model.pt")


def test_one_that_was_removed_is_not_offered(site: JobSite) -> None:
    (site.root / "model.pt").touch()
    site.run("train.checkpoint('model.pt')")
    (site.root / "model.pt").unlink()
    assert site.run("print(train.resume_path())") == "None"


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"path": 3}', '{"path": null}', "\0\0"])
def test_a_record_that_makes_no_sense_is_none(site: JobSite, content: str) -> None:
    (site.root / "checkpoints" / "latest.json").write_text(content)
    assert site.run("print(train.resume_path())") == "None"


def test_directories_and_names_of_any_kind_are_checkpoints_too(site: JobSite) -> None:
    (site.root / "epoch 3 ü").mkdir()
    site.run("import pathlib\ntrain.checkpoint(pathlib.Path('epoch 3 \\u00fc'))")
    assert site.run("import sys\nsys.stdout.buffer.write(train.resume_path().encode())").endswith("epoch 3 ü")


def test_a_record_that_cannot_be_written_is_a_warning_not_the_end(site: JobSite) -> None:
    (site.root / "checkpoints").rmdir()
    process = site.start("train.checkpoint('model.pt')\nprint('went on')")
    out, err = process.communicate(timeout=10)
    assert process.returncode == 0
    assert out == "went on\n"
    assert "weft could not record a checkpoint" in err


def test_done_creates_the_marker(site: JobSite) -> None:
    site.run("train.done()")
    assert site.done.exists()


def test_the_last_step_is_as_good_as_done(site: JobSite) -> None:
    site.run("train.progress(99, 100)")
    assert not site.done.exists()
    site.run("train.progress(99, 100)\ntrain.progress(100)")
    assert site.done.exists()
    assert site.scheduler.rest()[-1]["step"] == 100


def test_a_job_that_goes_on_was_not_done(site: JobSite) -> None:
    site.run("train.progress(100, 100)\ntrain.progress(1, 100)")
    assert not site.done.exists()


def test_a_job_that_knows_it_must_stop_says_itself_whether_it_is_done(site: JobSite) -> None:
    """Steps may be those of an epoch: an exit with 0 after it was told to stop must not end a job early."""
    (site.root / "preempt").touch()
    site.run("train.progress(100, 100)\nassert train.should_stop()")
    assert not site.done.exists()
    site.run("train.progress(100, 100)\ntrain.done()\nassert train.should_stop()")
    assert site.done.exists()


def test_importing_it_loads_nothing_of_weft_and_little_else() -> None:
    script = "import sys; before = set(sys.modules); import weft.train; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    rooms = ("checkpoints", "reporting", "run", "sender", "stopping")
    ours = {name for name in loaded if name.startswith("weft")}
    assert ours == {"weft", "weft.train", *(f"weft.train.{room}" for room in rooms)}
    assert not loaded & {"typing", "json", "threading", "socket", "asyncio", "re", "logging", "signal"}
