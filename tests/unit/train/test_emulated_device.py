"""The emulated device: its server shares the resources of a node among real processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.local_scheduler import until
from weft.train.emulated.device import Device, socket_path
from weft.train.emulated.server import CAPACITIES, parse_amounts


@pytest.fixture
def env() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="weft-d-") as folder:
        yield {"WEFT_DEVICE_DIR": folder, "WEFT_GPU_IDS": "0,1", "WEFT_DEVICE_OPTIONS": "--idle 0.5"}


def hold(env: dict[str, str], stage: str, seconds: float, took: multiprocessing.Queue[float]) -> None:
    device = Device(env)
    began = time.monotonic()
    device.hold(stage, seconds)
    took.put(time.monotonic() - began)


def hold_together(env: dict[str, str], stage: str, count: int, seconds: float = 0.3) -> list[float]:
    """Return how long holds of several processes took."""
    context = multiprocessing.get_context("fork")
    took: multiprocessing.Queue[float] = context.Queue()
    jobs = [context.Process(target=hold, args=(env, stage, seconds, took)) for _ in range(count)]
    for job in jobs:
        job.start()
    found = [took.get(timeout=60) for _ in jobs]
    for job in jobs:
        job.join()
    return found


def test_a_stage_is_shared_by_the_jobs_on_it_and_data_has_room_for_two(env: dict[str, str]) -> None:
    first = Device(env)  # starts the server
    first.hold("gpu", 0.1)
    assert min(hold_together(env, "gpu", 2)) > 0.4, "two jobs have half a GPU each"
    assert min(hold_together(env, "data", 2)) >= 0.29
    other = {**env, "WEFT_GPU_IDS": "2,3"}
    began = time.monotonic()
    second = Device(other)
    second.hold("gpu", 0.1)
    assert time.monotonic() - began >= 0.1
    second.close()
    log = Path(f"{socket_path(env)}.log").read_text()
    assert log.startswith("emulated device at")
    assert log.count("emulated device") == 1, "one server for all jobs of the node"
    first.close()
    until(lambda: not os.path.exists(socket_path(env)))


def test_a_hold_that_is_cancelled_tells_what_was_served_and_dead_jobs_let_go(env: dict[str, str]) -> None:
    mine = Device(env)
    mine._socket.send(b"hold gpu:0,1 60.0")
    code = "import sys; from weft.train.emulated.device import Device; Device(eval(sys.argv[1])).hold('gpu', 60.0)"
    other = subprocess.Popen([sys.executable, "-c", code, repr(env)])
    time.sleep(0.3)
    served_s = mine.cancel()
    assert 0.1 < served_s < 30.0
    other.send_signal(signal.SIGKILL)
    other.wait()
    began = time.monotonic()
    mine.hold("gpu", 0.2)
    assert 0.19 < time.monotonic() - began < 30.0, "the GPU is free again"
    mine.close()
    until(lambda: not os.path.exists(socket_path(env)))


def test_nodes_of_one_machine_have_servers_of_their_own() -> None:
    env = {"WEFT_DEVICE_DIR": "/d", "WEFT_NODELIST": "n0,n1"}
    assert socket_path({**env, "WEFT_NODE_RANK": "1"}) == "/d/n1.sock"
    assert socket_path({**env, "WEFT_NODE_RANK": "0"}) == "/d/n0.sock"
    assert socket_path({"WEFT_DEVICE_DIR": "/d"}) == "/d/device.sock"


def test_options_replace_single_amounts() -> None:
    assert parse_amounts("gpu=2", CAPACITIES, 0.01, 10.0) == {"data": 2.0, "gpu": 2.0, "net": 1.0}


def test_a_hold_goes_on_at_another_server_when_its_server_ends(env: dict[str, str]) -> None:
    code = "import sys; from weft.train.emulated.device import Device; Device(eval(sys.argv[1])).hold('gpu', 0.5)"
    server = subprocess.Popen([sys.executable, "-m", "weft.train.emulated.server", socket_path(env)])
    until(lambda: os.path.exists(socket_path(env)))
    jobs = [subprocess.Popen([sys.executable, "-c", code, repr(env)]) for _ in range(2)]
    mine = Device(env)
    mine.hold("gpu", 0.05)
    server.kill()
    server.wait()
    mine.hold("gpu", 0.05)
    mine.close()
    assert [job.wait(60) for job in jobs] == [0, 0]
    until(lambda: not os.path.exists(socket_path(env)))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--capacity cpu=2", "'cpu=2': expected data=N, gpu=N, net=N with numbers from 0.01 to 1000"),
        ("--loss gpu=much", "'gpu=much': expected"),
        ("--loss gpu=1", "from 0 to 0.99"),
        ("--idle soon", "--idle 'soon': expected seconds from 0"),
        ("--size 3", "unknown option '--size': expected --capacity, --loss, --idle"),
        ("--loss", "--loss needs a value"),
    ],
)
def test_bad_options_are_one_error_in_the_server_and_in_the_job(
    env: dict[str, str], options: str, text: str
) -> None:  # fmt: skip
    words = [sys.executable, "-m", "weft.train.emulated.server", f"{socket_path(env)}.other", *options.split()]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert ended.stderr.startswith("emulated device: ")
    assert text in ended.stderr
    assert ended.stderr.count("\n") == 1
    if options == "--size 3":
        with pytest.raises(OSError, match="no emulated device: emulated device: unknown option"):
            Device({**env, "WEFT_DEVICE_OPTIONS": options})


def test_a_server_ends_with_its_parent_even_if_that_is_killed(env: dict[str, str]) -> None:
    words = [sys.executable, "-m", "weft.train.emulated.server", socket_path(env), "--with-parent", "yes"]
    code = "import subprocess, sys, time; subprocess.Popen(eval(sys.argv[1]), stdin=subprocess.PIPE); time.sleep(600)"
    parent = subprocess.Popen([sys.executable, "-c", code, repr(words)])
    until(lambda: os.path.exists(socket_path(env)))
    parent.kill()
    parent.wait()
    until(lambda: not os.path.exists(socket_path(env)))


STAGE = """
import time
from weft import train
from weft.train.device import this_device
began = time.monotonic()
with train.stage("gpu"):
    this_device().launch(0.2)
    queued = time.monotonic() - began
print(type(this_device()).__module__, queued < 0.2, time.monotonic() - began >= 0.2)
"""


def run_stage(**variables: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WEFT_")}
    return subprocess.run(
        [sys.executable, "-c", STAGE], env={**kept, **variables}, capture_output=True, text=True, timeout=60
    )


def test_a_gpu_stage_waits_for_the_device_that_the_environment_names(env: dict[str, str]) -> None:
    with_server = Device(env)  # so that the stage does not start it
    assert run_stage(**env, WEFT_DEVICE="emulated").stdout == "weft.train.emulated.device True True\n"
    with_server.close()
    assert "'TorchDevice' object has no attribute 'launch'" in run_stage(**env, WEFT_DEVICE="").stderr
    assert "'TorchDevice' object has no attribute 'launch'" in run_stage(**env).stderr


def test_an_unknown_device_is_one_clear_error(env: dict[str, str]) -> None:
    found = run_stage(**env, WEFT_DEVICE="emulatd")
    assert found.returncode == 1
    expected = "WEFT_DEVICE=emulatd: unknown device; use emulated, or leave it empty for the GPUs of torch"
    assert found.stderr.splitlines()[-1] == f"ValueError: {expected}"
