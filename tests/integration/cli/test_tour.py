"""The tours of `make run`, with real jobs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.running.local_scheduler import until

ROOT = Path(__file__).resolve().parents[3]


def tour(tmp_path: Path, name: str) -> str:
    """Return the output of a tour, with the `weft` of this source."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "weft").write_text(f'#!/bin/sh\nexec {sys.executable} -m weft "$@"\n')
    (binaries / "weft").chmod(0o755)
    (binaries / "python").symlink_to(sys.executable)
    source = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "PYTHONPATH": source}
    script = ROOT / "examples" / name / "tour.sh"
    done = subprocess.run(["sh", script], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(Path("/tmp").glob("weft-tour-*"))
    until(lambda: not left_behind())
    return done.stdout


def left_behind() -> list[str]:
    """Processes that know of a tour's folder."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            mine = b"XDG_STATE_HOME=/tmp/weft-tour-" in environ.read_bytes()
        except OSError:
            continue
        found += [environ.parent.name] if mine else []
    return found


def test_one_is_preempted_and_resumes_and_nothing_is_left(tmp_path: Path) -> None:
    shown = tour(tmp_path, "jobs")
    saved = re.search(r"asked to stop: saved after step (\d+)", shown)
    assert saved, shown
    assert f"run 2: steps {saved[1]} to 60" in shown
    assert re.search(r"1 +fit +\S+ +PR ", shown), "it is shown as preempted"
    ended = re.findall(r"^ *(\S+) +\S+ +\S+ +CD ", shown.partition("$ weft history")[2], re.MULTILINE)
    assert sorted(ended) == ["1", "2_0", "2_1", "2_2", "3", "4"]


def test_a_workspace_of_training_scripts_is_shown_while_it_runs(tmp_path: Path) -> None:
    shown = tour(tmp_path, "workspace")
    statuses = re.findall(r"^rates: (\d) waiting, (\d) running, (\d) done, 0 failed", shown, re.MULTILINE)
    counts = [tuple(map(int, status)) for status in statuses]
    assert all(sum(each) == 6 and each[1] <= 4 for each in counts), "six tasks, two on each of two GPUs"
    assert counts[0][1] >= 1, "a slow machine may show it late, but it runs"
    assert counts[-1] == (0, 0, 6)
    assert re.search(r"^ *[01] +[12]/2 ", shown, re.MULTILINE)
    assert "step 40/40 loss 0.00" in shown
    assert "complete, skipped: careful, fast, faster, middle, slow, wild" in shown
    if shutil.which("tmux"):
        assert "rates_fast_gpu1\n" in shown


@pytest.mark.soak
def test_a_service_runs_next_to_training_and_nothing_is_left(tmp_path: Path) -> None:
    shown = tour(tmp_path, "services")
    assert '"path": "/first"' in shown
    assert "(100.00 %)" in shown
    assert re.search(r"hello/0 +ready", shown)
    assert re.search(r"train .* R ", shown)


def test_a_cluster_is_brought_up_runs_a_gang_and_nothing_is_left(tmp_path: Path) -> None:
    shown = tour(tmp_path, "cluster")
    assert "2 nodes with 4 GPUs at localhost:" in shown
    assert re.search(r"4 of 4 GPUs busy, 1 job running, 1 waiting", shown)
    assert re.search(r"node 1 of 2: n\d,n\d\n", shown)
    assert shown.count("\nthe gang is done\n") == 1
