"""A stand-in for a training program: it takes the given time, saves when it is asked to stop, and resumes.

`weft trace play` runs it for each job of a trace. Its time counts from the start of the process, so that a short job is
not longer by the start of Python. It uses only the standard library.
"""

from __future__ import annotations

import os
import sys
import time

from weft.train.checkpoints import checkpoint, resume_path
from weft.train.reporting import progress
from weft.train.stopping import preemptible

TICK_S = 0.05
"""The longest sleep: a request to stop is seen within this time, and progress is reported as often."""


def main(words: list[str]) -> None:
    """Take `words[0]` seconds. `words[1]` is a file for the saved time; its folder may not exist on this node."""
    total_s, file = float(words[0]), _file(words[1] if len(words) > 1 else "")
    total_ms, began = int(total_s * 1000), time.monotonic() - _age_s()
    with preemptible() as stop:
        done_s = before_s = _load(file)
        print(f"stand-in for {total_s:.3f} s, from {done_s:.3f} s, GPUs: {os.environ.get('CUDA_VISIBLE_DEVICES', '')}")
        while done_s < total_s:
            if stop.should_stop:
                _save(file, done_s)
                print(f"saved at {done_s:.3f} s", flush=True)
                stop.requeue()
            time.sleep(min(TICK_S, total_s - done_s))
            done_s = before_s + time.monotonic() - began
            progress(min(int(done_s * 1000), total_ms), total_ms)


def _age_s() -> float:
    """Return how long ago this process was started; 0 where the kernel does not tell."""
    try:
        with open("/proc/self/stat") as stat, open("/proc/uptime") as uptime:
            started = int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
            return max(float(uptime.read().split()[0]) - started, 0.0)
    except (OSError, ValueError, IndexError):
        return 0.0


def _file(given: str) -> str:
    if given and os.path.isdir(os.path.dirname(given)):
        return given
    return os.path.join(os.environ.get("WEFT_CKPT_DIR", "."), "standin.txt")


def _save(file: str, done_s: float) -> None:
    """Save the time of the first node's process: the others are as far."""
    if os.environ.get("WEFT_NODE_RANK", "0") != "0":
        return
    partial = f"{file}.new"
    with open(partial, "w") as saved:
        saved.write(str(done_s))
    os.replace(partial, file)
    checkpoint(file)


def _load(file: str) -> float:
    for path in (file, resume_path()):
        if path and os.path.exists(path):
            with open(path) as saved:
                return float(saved.read())
    return 0.0


if __name__ == "__main__":
    main(sys.argv[1:])
