"""What `make run` shows of real jobs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from live import is_alive

ROOT = Path(__file__).resolve().parents[2]


def test_one_is_preempted_and_resumes_and_nothing_is_left(tmp_path: Path) -> None:
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "weft").write_text(f'#!/bin/sh\nexec {sys.executable} -m weft "$@"\n')
    (binaries / "weft").chmod(0o755)
    (binaries / "python").symlink_to(sys.executable)
    source = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "PYTHONPATH": source}
    done = subprocess.run(
        ["sh", ROOT / "examples" / "jobs" / "tour.sh"],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    saved = re.search(r"told to stop: saved after step (\d+)", done.stdout)
    assert saved, done.stdout
    assert f"run 2: steps {saved[1]} to 60" in done.stdout
    assert re.search(r"1 +fit +\S+ +PR ", done.stdout), "it is shown as preempted"
    ended = re.findall(r"^ *(\S+) +\S+ +\S+ +CD ", done.stdout.partition("$ weft history")[2], re.MULTILINE)
    assert sorted(ended) == ["1", "2_0", "2_1", "2_2", "3", "4"]
    (pid,) = re.findall(r"^scheduler (\d+) serves", done.stdout, re.MULTILINE)
    assert not is_alive(int(pid))
    assert not list(Path("/tmp").glob("weft-tour-*"))
