"""A training script for a workspace: fits a line to noisy points. It does not depend on Weft."""

from __future__ import annotations

import argparse
import os
import random
import time
from pathlib import Path


def read(path: str) -> dict[str, float]:
    """Read `key: value` lines; use PyYAML for more."""
    lines = (line.partition("#")[0].partition(":") for line in Path(path).read_text().splitlines())
    return {key.strip(): float(value) for key, _, value in lines if value.strip()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config_path", required=True)
    path = parser.parse_args().config_path
    config = read(path)
    print(f"{path} on GPU {os.environ.get('CUDA_VISIBLE_DEVICES', '-')}: {config}", flush=True)

    points = [(x / 50, 3 * x / 50 + 1 + random.Random(x).gauss(0, 0.1)) for x in range(100)]
    slope = offset = 0.0
    steps, rate = int(config.get("steps", 20)), config.get("learning_rate", 0.1)
    for step in range(1, steps + 1):
        errors = [(x, slope * x + offset - y) for x, y in points]
        slope -= rate * sum(2 * error * x for x, error in errors) / len(points)
        offset -= rate * sum(2 * error for _, error in errors) / len(points)
        loss = sum(error**2 for _, error in errors) / len(points)
        print(f"step {step}/{steps} loss {loss:.4f}", flush=True)
        time.sleep(config.get("step_s", 0.1))

    # optional: without it, Weft writes the marker when the script succeeds
    out = Path("out")
    out.mkdir(exist_ok=True)
    (out / f"{Path(path).stem}_completed.txt").write_text(f"y = {slope:.2f} x + {offset:.2f}, loss {loss:.4f}\n")


if __name__ == "__main__":
    main()
