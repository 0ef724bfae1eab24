"""`weft node`: preparation, checks, clean-up and reset, with stand-ins for the programs of the driver."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.peers.driver_programs import DriverPrograms, driver_programs
from support.running.local_scheduler import until
from support.weft_cli import Weft
from weft.node.care import checks, cleanup
from weft.node.care.runs_here import agent_folders
from weft.node.engine.gpu import mps

MPS_ENV = 'echo "pipe=$CUDA_MPS_PIPE_DIRECTORY percent=$CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"'


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DriverPrograms:
    made = driver_programs(tmp_path / "driver")
    monkeypatch.setenv("PATH", made.path)
    return made


@pytest.fixture
def no_daemons() -> None:
    """Wait for the stand-ins of other tests on this machine to end."""
    until(lambda: not mps.list_daemons())


def steps(weft: Weft, *words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    found = json.loads(weft("node", *words, "--json", code=code).out)
    assert found["schema"] == 1
    return {step["name"]: step for step in found["steps"]}


def states(weft: Weft, *words: str, code: int = 0) -> dict[str, str]:
    return {name: step["state"] for name, step in steps(weft, *words, code=code).items()}


@contextmanager
def process(**env: str) -> Iterator[subprocess.Popen[bytes]]:
    made = subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"], **env})
    try:
        yield made
    finally:
        made.kill()
        made.wait()


def token_of(weft: Weft, job: str, record: str) -> str:
    path = weft.site.paths.jobs / job / "1" / record
    until(path.exists)
    return str(json.loads(path.read_bytes().rstrip(b"\0"))["token"])


def test_without_a_driver_there_is_nothing_to_do(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for action in ("prepare", "reset"):
        assert f"nothing to {action}: no NVIDIA driver" in weft("node", action).out
    assert steps(weft, "check")["driver"]["state"] == "skipped"


def test_prepare_turns_on_what_is_off_once(weft: Weft, driver: DriverPrograms) -> None:
    assert states(weft, "prepare", "--dry-run") == {"persistence": "planned", "dcgm": "planned"}
    assert {gpu["persistence_mode"] for gpu in driver.gpus()} == {"Disabled"}, "a dry run changes nothing"
    assert states(weft, "prepare") == {"persistence": "done", "dcgm": "done"}
    assert {gpu["persistence_mode"] for gpu in driver.gpus()} == {"Enabled"}
    before = driver.calls()
    assert states(weft, "prepare") == {"persistence": "ok", "dcgm": "ok"}
    assert not {"nvidia-smi -pm 1", "nv-hostengine"} & set(driver.calls()[len(before) :])


def test_prepare_without_rights_says_so_and_goes_on(weft: Weft, driver: DriverPrograms) -> None:
    driver.mark("not-root")
    found = steps(weft, "prepare")
    assert (found["persistence"]["state"], found["dcgm"]["state"]) == ("skipped", "done")
    assert "Insufficient Permissions" in found["persistence"]["detail"]
    assert "--sudo" in found["persistence"]["advice"]
    driver.mark("no-sudo")
    assert "password is required" in steps(weft, "prepare", "--sudo")["persistence"]["detail"]
    driver.mark("no-sudo", present=False)
    assert steps(weft, "prepare", "--sudo")["persistence"]["state"] == "done"
    assert "sudo -n -- nvidia-smi -pm 1" in driver.calls()


def test_a_driver_that_fails_is_reported(weft: Weft, driver: DriverPrograms) -> None:
    driver.mark("broken")
    for action in ("prepare", "check", "reset"):
        if action == "reset":
            weft("drain")
        assert "couldn't communicate" in steps(weft, action, code=1)["driver"]["detail"]
    weft("undrain")


@pytest.mark.usefixtures("no_daemons")
def test_jobs_on_shared_gpus_use_the_mps_daemon_of_weft(weft: Weft, driver: DriverPrograms) -> None:
    pipe = f"{weft.site.paths.runtime.parent}/mps/pipe"
    shared = ("run", "-q", "--max-jobs-per-gpu", "4", "--", "sh", "-c", MPS_ENV)
    assert weft(*shared).out == "pipe= percent=\n"
    assert states(weft, "prepare", "--mps", "--dry-run")["mps"] == "planned"
    assert mps.find_daemon(pipe) is None
    assert states(weft, "prepare", "--mps")["mps"] == "done"
    daemon = mps.find_daemon(pipe)
    assert daemon is not None
    try:
        assert os.stat(pipe).st_mode & 0o777 == 0o700
        assert "was running" in steps(weft, "prepare", "--mps")["mps"]["detail"]
        assert driver.calls().count("nvidia-cuda-mps-control -d") == 1
        assert weft(*shared).out == f"pipe={pipe} percent=25\n"
        assert weft("run", "-q", "--", "sh", "-c", MPS_ENV).out == "pipe= percent=\n", "it has its GPU alone"
        chosen = weft("run", "-q", "--env", "CUDA_MPS_PIPE_DIRECTORY=/mine", *shared[2:]).out
        assert chosen == "pipe=/mine percent=\n"
        assert "takes jobs on the same GPU with it" in steps(weft, "check")["mps"]["detail"]
        weft("drain")
        assert states(weft, "reset", "--dry-run") == {"mps": "planned"}
        assert states(weft, "reset") == {"mps": "done"}
        assert mps.find_daemon(pipe) is None
        assert states(weft, "reset") == {"mps": "ok"}
        weft("undrain")
        assert weft(*shared).out == "pipe= percent=\n"
    finally:
        weft("undrain")
        if mps.find_daemon(pipe) == daemon:
            os.kill(daemon.pid, 9)


@pytest.mark.usefixtures("driver", "no_daemons")
def test_an_mps_daemon_of_another_is_left_alone(weft: Weft, tmp_path: Path) -> None:
    env = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}
    subprocess.run(["nvidia-cuda-mps-control", "-d"], env=env, check=True)
    try:
        until(mps.list_daemons)
        assert "leaves it alone" in steps(weft, "prepare", "--mps", code=1)["mps"]["detail"]
        assert steps(weft, "check")["mps"]["state"] == "warning"
        shared = weft("run", "-q", "--max-jobs-per-gpu", "2", "--", "sh", "-c", MPS_ENV).out
        assert shared == "pipe= percent=\n"
    finally:
        subprocess.run(["nvidia-cuda-mps-control"], env=env, input=b"quit\n", check=True)
    until(lambda: not mps.list_daemons())


def test_check_names_what_is_wrong_with_the_gpus(weft: Weft, driver: DriverPrograms) -> None:
    weft("up")
    assert states(weft, "check")["ecc"] == "ok"
    driver.set_ecc_errors(1, 3)
    driver.change(0, compute_mode="Prohibited")
    found = steps(weft, "check", code=1)
    assert found["driver"]["detail"] == "version 570.86, 2 GPUs"
    assert (found["persistence"]["state"], found["clock"]["state"]) == ("warning", "ok")
    assert found["ecc"]["detail"] == "uncorrected ECC errors on GPU 1"
    assert (found["compute mode"]["state"], found["compute mode"]["advice"]) == ("failed", "as root: nvidia-smi -c 0")


def test_doctor_runs_the_checks_and_reports_what_failed(weft: Weft, driver: DriverPrograms) -> None:
    driver.set_ecc_errors(0, 1)
    weft("up")
    found = json.loads(weft("doctor", "--json", code=1).out)
    named = {step["name"]: step["state"] for step in found["checks"]}
    assert (named["driver"], named["ecc"], named["clock"]) == ("ok", "failed", "ok")
    (problem,) = found["problems"]
    assert problem.startswith("uncorrected ECC errors on GPU 0: ")
    assert "ecc: failed, uncorrected ECC errors on GPU 0; weft drain" in weft("doctor", code=1).out


@pytest.mark.parametrize(
    ("offset_s", "uncertainty_s", "state"),
    [(0.1, 0.0, "ok"), (-3.0, 0.5, "warning"), (3.0, 2.0, "ok"), (40.0, 1.0, "failed"), (-29.0, 0.0, "warning")],
)
def test_a_clock_that_is_surely_wrong_is_reported(offset_s: float, uncertainty_s: float, state: str) -> None:
    assert checks.check_clock(offset_s, uncertainty_s, "the scheduler's").state == state


def test_reset_needs_a_drained_and_empty_node(weft: Weft, driver: DriverPrograms) -> None:
    driver.set_ecc_errors(1, 3)
    job = weft.submit("--", "sleep", "600")
    until(lambda: weft.show(job)["status"] == "running")
    assert f"job {job}, run 1 is on this node" in weft("node", "reset", "--gpu", "1", code=6).err
    weft("cancel", job)
    weft("wait", job, code=None)
    assert "is not drained" in weft("node", "reset", "--gpu", "1", code=6).err
    weft("drain")
    assert "there is no GPU 7" in weft("node", "reset", "--gpu", "7", code=2).err
    driver.change(1, apps=[os.getpid()])
    assert f"process {os.getpid()} uses it" in steps(weft, "reset", "--gpu", "1", code=1)["gpu 1"]["detail"]
    driver.change(1, apps=[])
    assert states(weft, "reset", "--gpu", "1", "--dry-run")["gpu 1"] == "planned"
    assert not [call for call in driver.calls() if "--gpu-reset" in call]
    assert states(weft, "reset", "--gpu", "1", "--sudo")["gpu 1"] == "done"
    assert "nvidia-smi --gpu-reset -i 1" in driver.calls()
    assert states(weft, "check")["ecc"] == "ok"
    weft("undrain")


@pytest.mark.usefixtures("driver")
def test_reset_under_sudo_does_not_overlook_the_workers_of_the_user(
    weft: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be called by sudo")
    monkeypatch.setenv("SUDO_UID", "1000")
    assert "weft node reset --sudo" in weft("node", "reset", "--gpu", "1", code=6).err


def test_clean_kills_what_ended_runs_left_and_nothing_else(weft: Weft) -> None:
    ended, running = weft.submit("--", "true"), weft.submit("--", "sleep", "600")
    weft("wait", ended)
    until(lambda: weft.show(running)["status"] == "running")
    old, live = token_of(weft, ended, "exit.json"), token_of(weft, running, "started.json")
    with (
        process(WEFT_RUN_TOKEN=old) as orphan,
        process(WEFT_RUN_TOKEN=live) as member,
        process(WEFT_RUN_TOKEN="0" * len(old)) as stranger,
        process() as other,
    ):
        planned = steps(weft, "clean", "--dry-run")["processes"]
        assert (planned["state"], planned["detail"]) == ("planned", f"kill pid {orphan.pid} of job {ended}, run 1")
        assert orphan.poll() is None
        assert states(weft, "clean")["processes"] == "done"
        assert orphan.wait(10) == -9
        assert [each.poll() for each in (member, stranger, other)] == [None] * 3
        assert states(weft, "clean")["processes"] == "ok"
        assert weft.show(running)["status"] == "running"


def test_an_orphan_is_checked_again_before_it_is_killed(weft: Weft) -> None:
    ended = weft.submit("--", "true")
    weft("wait", ended)
    token = token_of(weft, ended, "exit.json")
    with process(WEFT_RUN_TOKEN=token):
        (found,) = cleanup.find_orphans(agent_folders())
        assert not cleanup.kill(found._replace(process=found.process._replace(start=found.process.start + 1)))
        assert not cleanup.kill(found._replace(token="another"))
        assert cleanup.kill(found)


def test_clean_removes_stale_sockets_and_empty_weave_directories(weft: Weft) -> None:
    import socket

    paths = weft.site.paths
    weft("up")
    stale, weave, used = paths.runtime / "old.sock", paths.state / "weaves" / "7-1", paths.state / "weaves" / "8-2"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(stale))
    for folder in (weave, used):
        folder.mkdir(parents=True)
    (used / "state").touch()
    assert {**states(weft, "clean"), "processes": ""} == {"processes": "", "sockets": "ok", "weaves": "ok"}, "too young"
    long_ago = time.time() - 2 * cleanup.STALE_AFTER_S
    for path in (stale, weave, used, *paths.runtime.glob("*.sock")):
        os.utime(path, (long_ago, long_ago))
    found = steps(weft, "clean")
    assert (found["sockets"]["detail"], found["weaves"]["detail"]) == (f"removed {stale}", f"removed {weave}")
    assert (stale.exists(), weave.exists(), used.exists()) == (False, False, True)
    assert weft.site.paths.answers(), "the sockets in use stay"


def test_a_folder_without_jobs_is_not_cleaned(weft: Weft) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert "is not the folder of a worker" in weft("node", "clean", "--folder", folder, code=2).err
