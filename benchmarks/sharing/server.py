"""An inference server without a network: requests come at given moments of the pair's clock, one batch each."""

from __future__ import annotations

import json
import os
import random
import struct
import sys
from pathlib import Path

import torch
from torch import nn

from benchmarks.sharing.clock import PairClock, cpu_seconds
from weft.serve import batch

WIDTH, DEPTH, ROWS = 512, 10, 64
WARM_UP = 20


def main(trainer: str, counter: str, rate: str, seconds: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(DEPTH)))
    inputs = torch.randn(ROWS, WIDTH)
    other = int(trainer) or None
    with torch.inference_mode():
        for _ in range(WARM_UP):
            with batch():
                model(inputs)
        found = serve(lambda: model(inputs), other, Path(counter), float(rate), float(seconds))
    print(json.dumps(found))


def serve(work: object, other: int | None, counter: Path, rate: float, seconds: float) -> dict[str, object]:
    draw, clock = random.Random(7), PairClock(other)
    steps, cpu = _steps(counter), cpu_seconds(other) if other else 0.0
    due, latencies, services = 0.0, [], []
    while True:
        due += draw.expovariate(rate)
        if due > seconds:
            break
        clock.sleep_until(due)
        began = clock.now()
        with batch():
            work()  # type: ignore[operator]
        ended = clock.now()
        latencies.append(ended - due)
        services.append(ended - began)
    clock.sleep_until(seconds)
    used = cpu_seconds(other) - cpu if other else 0.0
    return {
        "latencies": latencies, "services": services, "seconds": clock.now(), "steps": _steps(counter) - steps,
        "trainer_cpu_s": used, "pid": os.getpid(),
    }  # fmt: skip


def _steps(counter: Path) -> int:
    return int(struct.unpack("<Q", counter.read_bytes())[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
