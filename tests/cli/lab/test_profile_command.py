"""`weft profile`: a job is measured, its stage times are stored under a key, and jobs with the key have them."""

from __future__ import annotations

import getpass
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.programs import recording_job
from support.running.local_scheduler import until
from support.weft_cli import Weft


def of(weft: Weft, *words: str) -> dict[str, Any]:
    """Return what `weft profile` prints with --json."""
    found: dict[str, Any] = json.loads(weft("profile", words[0], "--json", *words[1:]).out)
    return found


JOB = (sys.executable, str(Path(recording_job.__file__)))


def test_a_profile_is_measured_stored_and_listed(weft: Weft) -> None:
    done = weft("profile", "run", "--gpus", "0", "--steps", "20", "--key", "bert", "--", *JOB, "100")
    rows = {line.rsplit(maxsplit=4)[0].strip(): line for line in done.out.splitlines()}
    assert "50.0 ms  100.0 ms" in rows["gpu"]
    assert "fetch in workers" in done.out
    assert "start 1.5 s, 4321 MB on a GPU, 210 MB of RAM" in done.err
    assert f"stored as bert; jobs of {getpass.getuser()} with --profile-key bert use it" in done.err
    job = weft.show("@")
    assert job["status"] == "cancelled", "the job is stopped once it is measured"
    assert weft("logs", job["id"]).out == "auto 1\n", "its stages are recorded"
    profile = of(weft, "list")["profiles"][0]
    assert {name: profile[name] for name in ("key", "gpus", "data_s", "gpu_s", "net_s", "iteration_s", "source")} == {
        "key": "bert", "gpus": 1, "data_s": 0.02, "gpu_s": 0.05, "net_s": 0.01, "iteration_s": 0.081, "source": "run",
    }  # fmt: skip
    assert weft("profile", "list").out.splitlines()[1].split()[:3] == ["bert", getpass.getuser(), "1"]
    assert "bert" in weft("profile", "show", "bert").out
    assert "unknown profile 'brt'\n  the nearest is bert" in weft.fails("profile", "show", "brt")


def test_the_key_is_the_model_of_the_params_or_the_command(weft: Weft) -> None:
    found = of(weft, "run", "--shared", "--gpus", "0", "--steps", "5", "--param", "model=vgg", "--", *JOB, "100")
    assert found["profile"]["user"] is None, "it is for the jobs of all users"
    assert (found["profile"]["key"], found["stages"]["steps"] >= 15) == ("vgg", True)
    assert found["stages"]["p90"]["gpu_s"] == 0.1
    plain = of(weft, "run", "--gpus", "0", "--steps", "5", "--", *JOB, "100")
    assert plain["profile"]["key"].startswith("command:")


def test_a_job_that_ends_early_is_measured_by_the_steps_that_it_did(weft: Weft) -> None:
    done = weft("profile", "run", "--gpus", "0", "--key", "short", "--", *JOB, "30")
    assert "the job ended after 30 steps; fewer were measured than asked for" in done.err


def test_a_job_without_steps_has_no_profile(weft: Weft) -> None:
    before = of(weft, "list")["profiles"]
    failed = weft("profile", "run", "--gpus", "0", "--", *JOB, "0", code=6).err
    assert "is done with code 0 and reported no steps: there is no profile" in failed
    assert "weft.train.stage" in failed
    assert "failed with code 3" in weft("profile", "run", "--gpus", "0", "--", "sh", "-c", "exit 3", code=6).err
    assert of(weft, "list")["profiles"] == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--steps", "3", "--", "true"), "--steps: '3' is not a number of steps"),
        (("--steps", "x", "--", "true"), "from 5 to 1,000,000"),
        (("--array", "0-3", "--", "true"), "--array: weft profile run measures one job"),
        (("--profile", "gpu=1", "--", "true"), "--profile: weft profile run measures one job"),
        ((), "no command to run"),
    ],
)
def test_bad_input_says_what_to_do(weft: Weft, words: tuple[str, ...], says: str) -> None:
    assert says in weft.fails("profile", "run", *words)


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        ("gpu=-1", "the profile's gpu is -1, not a number from 0"),
        ("gpu=nan", "the profile's gpu is nan, not a number from 0"),
        ("data=inf", "the profile's data is inf, not a number from 0"),
        ("net=1e300", "the profile's net is 1e+300 s, more than a day"),
        ("gpu=1e-13", "the profile's stages take less than a microsecond together"),
        ("gpu=0", "the profile has no stage: data, gpu and net are all 0"),
        ("gpu=1,iteration=nan", "the profile's iteration is nan s, not from a microsecond to a day"),
        ("gpu=1,start=1e9", "the profile's start is 1e+09 s, more than a day"),
        ("gpu=1,memory=-5", "'-5' is not a size"),
        ("gpu=soon", "gpu is 'soon', not seconds"),
        ("gpu=1,gpu=2", "the profile has 'gpu' twice"),
        ("colour=1", "a profile has no 'colour'"),
        ("gpu", "'gpu' has no value"),
    ],
)
def test_a_profile_that_makes_no_sense_is_one_clear_error(weft: Weft, profile: str, says: str) -> None:
    said = weft.fails("submit", "--gpus", "0", "--profile", profile, "--", "true")
    assert f"weft: error: --profile: {says}" in said
    assert len(said.splitlines()) == 2, "what is wrong, and what to do"


def test_a_task_file_with_such_a_profile_is_refused_with_its_line(weft: Weft, tmp_path: Path) -> None:
    task = tmp_path / "task.yaml"
    task.write_text("command: ['true']\nprofile: {data: nan, gpu: 1}\n")
    said = weft.fails("submit", "--config", str(task))
    assert "the profile's data is nan, not a number from 0" in said
    assert "task.yaml:2: profile" in said


def test_a_run_that_records_its_stages_refreshes_its_profile(weft: Weft) -> None:
    weft.submit("--gpus", "0", "--profile-key", "mine", "--", *JOB, "100")
    (profile,) = until(lambda: [each for each in of(weft, "list")["profiles"] if each["key"] == "mine"])
    assert (profile["source"], profile["gpu_s"], profile["memory_mb"]) == ("run", 0.05, 4321)
