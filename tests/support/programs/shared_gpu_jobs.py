"""Jobs that share a GPU: `train` is a plain torch script, `serve` marks batches until SIGTERM."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def train(stop: Path, *, is_paced: bool) -> None:
    import torch
    from torch import nn

    torch.set_num_threads(1)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU(inplace=True)) for _ in range(4)))
    if is_paced:
        from weft.train import pace

        pace(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    steps = 0
    while not stop.exists():
        optimizer.zero_grad()
        model(torch.randn(8, 64)).square().mean().backward()
        optimizer.step()
        steps += 1
        if steps % 20 == 0:
            print("steps", steps, flush=True)
        time.sleep(0.002)


def serve(stop: Path) -> None:
    from weft.serve import batch

    print("pid", os.getpid(), flush=True)
    while not stop.exists():
        with batch():
            time.sleep(0.05)
        time.sleep(0.005)


if __name__ == "__main__":
    kind, path = sys.argv[1:]
    if kind == "serve":
        serve(Path(path))
    else:
        train(Path(path), is_paced=kind == "paced")
