"""A small training loop to sweep over: it fits a line by gradient descent, reports its loss, and resumes if stopped.

weft sweep --grid lr=0.3,0.1,0.03 --gpus 0 -- python examples/sweeps/train.py --lr {lr}
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path

from weft import train


def fit(lr: float, seed: int, steps: int, pause_s: float, folder: Path) -> float:
    """Fit y = 3x + 1 to noisy points and return the last loss."""
    source = random.Random(seed)
    points = [(x, 3 * x + 1 + source.gauss(0, 0.05)) for x in (source.uniform(-1, 1) for _ in range(64))]
    saved = train.resume_path()
    first, slope, offset = json.loads(Path(saved).read_text()) if saved else (0, 0.0, 0.0)
    loss = 0.0
    with train.preemptible() as stop:
        for step in range(first + 1, steps + 1):
            errors = [(slope * x + offset - y, x) for x, y in points]
            loss = sum(error**2 for error, _ in errors) / len(errors)
            slope -= lr * 2 * sum(error * x for error, x in errors) / len(errors)
            offset -= lr * 2 * sum(error for error, _ in errors) / len(errors)
            time.sleep(pause_s)
            train.progress(step, steps, loss=loss)
            if stop.should_stop:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "checkpoint.json").write_text(json.dumps([step, slope, offset]))
                train.checkpoint(folder / "checkpoint.json")
                stop.requeue()
    return loss


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--pause", type=float, default=0.02, help="seconds to wait in each step")
    parser.add_argument("--folder", type=Path, default=Path("checkpoints"))
    args = parser.parse_args()
    print(f"loss {fit(args.lr, args.seed, args.steps, args.pause, args.folder / f'lr{args.lr}-{args.seed}'):.4f}")


if __name__ == "__main__":
    main()
