"""The job of the emulated device, as a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from support.running.local_scheduler import until
from weft.train.emulated import program


def start(folder: Path, work_s: float, **env: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-I", "-S", program.__file__, str(work_s), str(folder / "save")]
    return subprocess.Popen(words, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True)


def test_it_takes_its_time_and_marks_that_it_is_done(tmp_path: Path) -> None:
    began = time.monotonic()
    job = start(tmp_path, 0.3, WEFT_DONE_FILE=str(tmp_path / "done"))
    assert job.communicate()[0] == "emulated: 0.300 s of work, from 0.000 s\n"
    assert (job.returncode, (tmp_path / "done").exists()) == (0, True)
    assert time.monotonic() - began > 0.28, "the kernel tells the start to a hundredth of a second"


def test_stopped_it_saves_and_the_next_run_continues(tmp_path: Path) -> None:
    job = start(tmp_path, 60.0)
    assert job.stdout is not None
    job.stdout.readline()
    job.send_signal(signal.SIGTERM)
    assert "emulated: saved at" in job.communicate()[0]
    assert job.returncode == program.EXIT_CHECKPOINTED
    assert 0.0 < float((tmp_path / "save").read_text()) < 60.0
    (tmp_path / "save").write_text("59.9")
    again = start(tmp_path, 60.0)
    assert again.communicate(timeout=30)[0].endswith("from 59.900 s\n")


def test_only_the_first_node_of_a_gang_saves(tmp_path: Path) -> None:
    job = start(tmp_path, 60.0, WEFT_NODE_RANK="1")
    assert job.stdout is not None
    job.stdout.readline()
    job.send_signal(signal.SIGTERM)
    job.communicate()
    assert job.returncode == program.EXIT_CHECKPOINTED
    assert not (tmp_path / "save").exists()
    until(lambda: job.poll() is not None)
