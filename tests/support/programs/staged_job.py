"""A job that takes its turns with `weft.train.stage`, until it is stopped: python staged_job.py [HOLD_S]."""

from __future__ import annotations

import os
import sys
import time

from weft import train

if __name__ == "__main__":
    print("pid", os.getpid(), flush=True)
    hold_s, end = float((*sys.argv[1:], "0.005")[0]), time.monotonic() + 300
    while not train.should_stop() and time.monotonic() < end:
        try:
            with train.stage("gpu"):
                time.sleep(hold_s)
        except train.StopRequested:
            break
        time.sleep(0.005)
