"""Two ranks that name their stages: python ranks_in_turns.py PORT STEPS FILE. FILE gets begin and end of GPU stages.

With STEPS 0 they run until rank 0 is asked to stop. One is forked from the other, so that torch is imported once.
"""

from __future__ import annotations

import os
import sys
import time

import torch

from weft import train


def rank(number: int, port: str, steps: int, out: int) -> None:
    os.environ.update(RANK=str(number), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.distributed.init_process_group("gloo")
    if number == 0:
        train.should_stop()
    os.write(out, b"up\n")
    step = 0
    while not steps or step < steps:
        step += 1
        with train.stage("gpu"):
            begin = time.monotonic()
            time.sleep(0.004)
            line = f"{number} {begin:.6f} {time.monotonic():.6f}"
        with train.stage("net"):
            torch.distributed.all_reduce(torch.zeros(1))
        os.write(out, f"{line}\n".encode())


def main(port: str, steps: str, file: str) -> None:
    out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    child = os.fork()
    code = 0
    try:
        rank(0 if child else 1, port, int(steps), out)
    except SystemExit as stop:
        code = int(str(stop.code))
    if child:
        code = max(code, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
