"""A member of a weave that takes turns until it is stopped: python weave_member.py DIR PLACE LOG HOLD_S [STAGES].

It appends a line to the log at the begin and the end of each turn: stage, event, time, whether it was passed over.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from weft.train.weave.member import Member


def main(directory: str, place: str, log: str, hold_s: str, stages: str = "gpu") -> None:
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(stage: str, what: str, at: float = 0.0, passed_over: bool = False) -> None:
        os.write(out, f"{stage} {what} {at or time.monotonic():.6f} {passed_over:d}\n".encode())

    member = Member(directory, int(place))
    write("", "joined")
    while not stopping:
        for stage in stages.split(","):
            if not member.acquire(stage, lambda: stopping):
                write(stage, "gave-up")
                break
            write(stage, "begin")
            time.sleep(float(hold_s))
            ended_at = time.monotonic()
            write(stage, "end", ended_at, member.release(stage))
        time.sleep(0.001)
    member.leave()
    write("", member.failure)


if __name__ == "__main__":
    main(*sys.argv[1:])
