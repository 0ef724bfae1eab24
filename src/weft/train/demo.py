"""The built-in workload `demo`: prints its GPUs and reports progress for a while. It saves and resumes.

`weft submit` runs it if a job has no command. It uses only the standard library.
"""

from __future__ import annotations

import argparse
import os
import socket
import time

from weft.train.checkpoints import checkpoint, resume_path
from weft.train.reporting import progress
from weft.train.stopping import preemptible

STEP_S = 0.5
PRINT_INTERVAL_S = 5.0


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--duration", type=float, default=30.0, metavar="S", help="duration in seconds")
    total_s = parser.parse_args(words).duration
    done_s = _load()
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    print(f"demo on {socket.gethostname()}, GPUs: {gpus or 'none'}, from {done_s:.1f} to {total_s:.1f} s", flush=True)
    printed_s = done_s
    with preemptible() as stop:
        while done_s < total_s:
            if stop.should_stop:
                print(f"stopped at {done_s:.1f} s", flush=True)
                _save(done_s)
                stop.requeue()
            step_s = min(STEP_S, total_s - done_s)
            time.sleep(step_s)
            done_s += step_s
            progress(round(done_s, 3), total_s)
            if done_s - printed_s >= PRINT_INTERVAL_S:
                printed_s = done_s
                print(f"{done_s:.0f} of {total_s:.0f} s", flush=True)
    print("done", flush=True)


def _file() -> str:
    return os.path.join(os.environ.get("WEFT_CKPT_DIR", "."), "demo.txt")


def _save(done_s: float) -> None:
    with open(_file(), "w") as file:
        file.write(str(done_s))
    checkpoint(_file())


def _load() -> float:
    path = resume_path()
    if path is None:
        return 0.0
    with open(path) as file:
        return float(file.read())


if __name__ == "__main__":
    main()
