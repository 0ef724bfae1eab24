"""A job that reports the times of its stages as the recorder of `weft.train` does: python recording_job.py STEPS.

It sends its own figures, so that a test knows them; with STEPS 0 it reports none.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time


def main(steps: str) -> None:
    for step in range(1, int(steps) + 1):
        times = {"data_s": 0.02, "gpu_s": 0.05, "net_s": 0.01, "wait_s": 0.001, "turn_s": 0.0, "step_s": 0.081}
        stages = {
            **times, "p90": {name: 2 * value for name, value in times.items()}, "steps": step, "first_step_s": 1.581,
            "separate_net": True, "memory_mb": 4321, "rss_mb": 210, "workers": 2, "fetch_s": 0.04, "fetch_cpu_s": 0.03,
        }  # fmt: skip
        report = {"job": os.environ["WEFT_JOB_ID"], "run": int(os.environ["WEFT_RUN"]), "step": step, "stages": stages}
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(json.dumps(report).encode(), os.environ["WEFT_SOCKET"])
        time.sleep(0.01)
    if int(steps) > 50:
        time.sleep(600)


if __name__ == "__main__":
    print(os.environ.get("WEFT_STAGES"), os.environ.get("WEFT_PROFILE"), flush=True)
    main(*sys.argv[1:])
