"""A training job: layers of equal size, forward and backward. Counts its steps in a file that others can read."""

from __future__ import annotations

import mmap
import struct
import sys
from pathlib import Path

import torch
from torch import nn

from weft.train import pace

LAYERS, WIDTH, BATCH = 16, 512, 96
COUNT = struct.Struct("<Q")


def main(counter: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(LAYERS)))
    pace(model)  # gates are open unless the rule of the page closes them
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    inputs = torch.randn(BATCH, WIDTH)
    with open(counter, "r+b") as file, mmap.mmap(file.fileno(), 8) as memory:
        steps = 0
        while Path(counter).exists():
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
            steps += 1
            COUNT.pack_into(memory, 0, steps)


if __name__ == "__main__":
    main(*sys.argv[1:])
