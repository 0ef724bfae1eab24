"""A small real training job for several processes: torch, DDP, gloo. Each rank checks that all agree.

`python training.py STEPS [FILE]`: with a file, rank 1 of the first run waits for it after the first step.
"""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

steps, wait_for = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
print(f"rank {rank} of {world} pid {os.getpid()} run {os.environ['WEFT_RUN']}", flush=True)
torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(steps):
    inputs = torch.randn(16, 4)
    loss = (model(inputs).squeeze() - inputs.sum(dim=1)).square().mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    while wait_for and rank == 1 and os.environ["WEFT_RUN"] == "1" and not os.path.exists(wait_for):
        time.sleep(0.05)
weights = torch.cat([each.detach().flatten() for each in model.parameters()])
others = [torch.empty_like(weights) for _ in range(world)]
dist.all_gather(others, weights)
agree = all(torch.equal(weights, each) for each in others)
print(f"rank {rank} done, agree {agree}, loss {loss.item():.3f}", flush=True)
dist.destroy_process_group()
sys.stdout.flush()
# DDP still holds the threads of the process group. On a busy machine the interpreter's end destroys them while they
# run, and the process aborts: leave without that
os._exit(0 if agree else 1)
