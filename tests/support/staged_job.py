"""A job that takes its turns with `weft.train.stage`, until it is stopped: python staged_job.py."""

from __future__ import annotations

import os
import time

from weft import train

if __name__ == "__main__":
    print("pid", os.getpid(), flush=True)
    end = time.monotonic() + 300
    while not train.should_stop() and time.monotonic() < end:
        try:
            with train.stage("gpu"):
                time.sleep(0.005)
        except train.StopRequested:
            break
        time.sleep(0.005)
