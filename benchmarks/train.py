"""The cost of `weft.train` in a training loop: a progress report, a check whether to stop, and the import."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.figure import Figure

CALLS: Final = 200_000
LOOP: Final = f"""
import time
from weft import train
def least(call):
    found = []
    for _ in range(5):
        began = time.process_time()
        for step in range({CALLS}):
            call(step)
        found.append((time.process_time() - began) / {CALLS} * 1e6)
    return min(found)
train.progress(0, 10**9)
print(least(lambda step: train.progress(step, 10**9)))
print(least(lambda step: train.progress(step, 10**9, loss=0.5, accuracy=0.25)))
print(least(lambda step: train.should_stop()))
"""
IMPORT: Final = "import time; began = time.process_time(); import weft.train; print(time.process_time() - began)"


def figures() -> Iterator[Figure]:
    with TemporaryDirectory(prefix="weft-") as name, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as scheduler:
        path = str(Path(name, "progress.sock"))
        scheduler.bind(path)
        job = {"WEFT_JOB_ID": "1", "WEFT_RUN": "1", "WEFT_SOCKET": path, "WEFT_PREEMPT_FILE": f"{name}/preempt"}
        bare, metrics, check = map(float, _python(LOOP, job).split())
        yield Figure("progress(step, total)", bare, "CPU us", 5.0)
        yield Figure("progress(step, total, loss=, accuracy=)", metrics, "CPU us", 5.0)
        yield Figure("should_stop()", check, "CPU us", 5.0)
        outside = float(_python(LOOP, {}).split()[0])
        yield Figure("progress(step, total) outside a job", outside, "CPU us", 5.0)
    yield Figure("import weft.train", 1e3 * min(float(_python(IMPORT, {})) for _ in range(5)), "CPU ms", 10.0)


def _python(script: str, env: dict[str, str]) -> str:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WEFT_")}
    done = subprocess.run(
        [sys.executable, "-c", script], env={**kept, **env}, capture_output=True, text=True, check=True
    )  # fmt: skip
    return done.stdout
