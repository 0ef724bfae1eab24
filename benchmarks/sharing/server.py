"""An inference server without a network: requests come at given moments of the pair's clock, one batch each.

It reads orders from standard input, one JSON object per line, and answers each with a line.
"""

from __future__ import annotations

import json
import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.sharing.clock import PairClock
from weft.serve import batch

WIDTH, DEPTH, ROWS = 512, 10, 64
WARM_UP = 20


def main(counter: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(DEPTH)))
    inputs = torch.randn(ROWS, WIDTH)
    with torch.inference_mode():
        for _ in range(WARM_UP):
            model(inputs)
        for line in sys.stdin:
            print(json.dumps(serve(lambda: model(inputs), Path(counter), **json.loads(line))), flush=True)


def serve(
    work: Callable[[], object], counter: Path, *, trainer: int, rate: float, settle_s: float, seconds: float, seed: int
) -> dict[str, Any]:
    """Answer requests for some seconds of the pair's clock. What happens before `settle_s` does not count."""
    draw, clock = random.Random(seed), PairClock(trainer or None)
    due, latencies, steps = draw.expovariate(rate), [], _steps(counter)
    began = 0.0
    while due < settle_s + seconds:
        clock.sleep_until(due)
        if due >= settle_s and not began:
            began, steps = clock.now(), _steps(counter)
        with batch():
            work()
        if due >= settle_s:
            latencies.append(clock.now() - due)
        due += draw.expovariate(rate)
    clock.sleep_until(settle_s + seconds)
    return {"latencies": latencies, "seconds": clock.now() - began, "steps": _steps(counter) - steps}


def _steps(counter: Path) -> int:
    return int(struct.unpack("<Q", counter.read_bytes())[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
