"""A training script that knows nothing of Weft: python plain_training.py [--steps N] [--workers N] [--accumulate N].

It prints a checksum of its parameters. RANK and WORLD_SIZE make it a rank of DDP. `--wait FILE` waits for a file first.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):  # type: ignore[misc]
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        noise = torch.randn(32, generator=torch.Generator().manual_seed(index))
        return noise + 0.01 * torch.rand(32)  # a random augmentation


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bucket-view", action="store_true")
    parser.add_argument("--wait", default="")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    ranks, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    model: torch.nn.Module = torch.nn.Sequential(
        torch.nn.Linear(32, 128),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.1),
        torch.nn.Linear(128, 64),
        torch.nn.Linear(64, 1),
    )
    trained = model
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
        trained = torch.nn.parallel.DistributedDataParallel(
            model, bucket_cap_mb=0.01, gradient_as_bucket_view=options.bucket_view
        )
        torch.manual_seed(options.seed + rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    numbers = Numbers(16 * options.steps * options.accumulate)
    print("ready", flush=True)
    while options.wait and not os.path.exists(options.wait):
        time.sleep(0.01)
    norm = 0.0
    for number, batch in enumerate(DataLoader(numbers, 16, shuffle=True, num_workers=options.workers), start=1):
        loss = (trained(batch).squeeze() - batch.sum(dim=1)).square().mean() / options.accumulate
        loss.backward()
        if number % options.accumulate == 0:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    with torch.no_grad():
        evaluated = sum(float(model(batch).sum()) for batch in DataLoader(numbers, 64))
    parameters = b"".join(each.detach().numpy().tobytes() for each in model.parameters())
    print(f"norm {norm:.9f} eval {evaluated:.6f} sum {hashlib.sha256(parameters).hexdigest()}", flush=True)
    if ranks > 1:
        torch.distributed.destroy_process_group()
        sys.stdout.flush()
        os._exit(0)  # DDP holds threads that the interpreter's end may destroy while they run


if __name__ == "__main__":
    main(sys.argv[1:])
