"""The total cost of a workspace task: 200 tasks that do nothing, with their sessions, logs and markers.

All processes run below one process that adopts orphans, so that it counts every CPU second: of the scheduler, the
shims, the keepers of the tasks, tmux, the viewers, and the commands.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figure import Figure

TASKS, GOAL_MS = 200, 60.0
TIMEOUT_S = 300.0
_SUBREAPER = 36
CONFIG = """
task_name: bench
python_env: "true"
script_path: nothing
max_jobs_per_gpu: 4
startup_delay: 0
conda_env: ""
log_dir: logs
"""


def figures() -> Iterator[Figure]:
    command = [sys.executable, "-m", "benchmarks.workspace"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=2 * TIMEOUT_S)
    found = json.loads(done.stdout)
    sessions = "with tmux" if shutil.which("tmux") else "without tmux, which is not installed"
    yield Figure(f"workspace: CPU per task, {sessions}", found["cpu_ms"], "ms", GOAL_MS)
    yield Figure("workspace: tasks that do nothing", found["rate"], "tasks/s")


def main() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)
    root = Path(tempfile.mkdtemp(prefix="weft-b-"))
    env = {key: value for key, value in os.environ.items() if key != "TMUX"}
    env |= {"XDG_STATE_HOME": f"{root}/s", "XDG_RUNTIME_DIR": f"{root}/r", "TMUX_TMPDIR": str(root)}
    try:
        began = time.monotonic()
        _run(root, env)
        took_s = time.monotonic() - began
    finally:
        _weft(env, "down", "--kill", "-y")
        if shutil.which("tmux"):
            subprocess.run(["tmux", "kill-server"], env=env, capture_output=True, check=False)
        _reap()
        shutil.rmtree(root, ignore_errors=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_ms = 1e3 * (used.ru_utime + used.ru_stime) / TASKS
    sys.stdout.write(json.dumps({"cpu_ms": cpu_ms, "rate": TASKS / took_s}) + "\n")


def _run(root: Path, env: dict[str, str]) -> None:
    (root / "configs").mkdir()
    (root / "nothing").touch()
    (root / "scheduler_config.yml").write_text(CONFIG)
    for number in range(TASKS):
        (root / "configs" / f"c{number}.yml").touch()
    _weft(env, "workspace", "--dir", str(root), "start")
    until = time.monotonic() + TIMEOUT_S
    while len(list((root / "out").glob("*_completed.txt")) if (root / "out").exists() else []) < TASKS:
        if time.monotonic() > until:
            raise TimeoutError("the tasks have not ended")
        time.sleep(0.1)
    while shutil.which("tmux") and _dead_panes(env).count("0") and time.monotonic() < until:
        time.sleep(0.5)


def _dead_panes(env: dict[str, str]) -> list[str]:
    """Return for each session "1" if its command has ended, else "0"."""
    command = ["tmux", "list-panes", "-a", "-F", "#{pane_dead}"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False).stdout.split()


def _weft(env: dict[str, str], *words: str) -> None:
    command = [sys.executable, "-m", "weft", *words]
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _reap() -> None:
    """Wait for all children of this process, orphans included. Kill each that does not end, by its pid."""
    until = time.monotonic() + 10.0
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            if time.monotonic() > until:
                for child in _children():
                    os.kill(child, signal.SIGKILL)
            time.sleep(0.05)


def _children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()]


if __name__ == "__main__":
    main()
