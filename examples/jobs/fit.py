"""A small training job: fits a line to noisy points by gradient descent, saves its work and resumes from there."""

from __future__ import annotations

import json
import os
import random
import time

from weft import train

STEPS = int(os.environ.get("WEFT_PARAM_STEPS", "60"))
STEP_S = 0.1
"""A pause after each step, so that the job runs long enough to watch."""
RATE = 0.05


def main() -> None:
    points = [(x / 50, 3 * x / 50 + 1 + random.Random(x).gauss(0, 0.1)) for x in range(100)]
    slope, offset, first = resume()
    print(f"run {os.environ.get('WEFT_RUN', '1')}: steps {first} to {STEPS}", flush=True)
    with train.preemptible() as stop:
        for step in range(first, STEPS):
            errors = [(x, slope * x + offset - y) for x, y in points]
            slope -= RATE * sum(2 * error * x for x, error in errors) / len(points)
            offset -= RATE * sum(2 * error for _, error in errors) / len(points)
            train.progress(step + 1, STEPS, loss=sum(error**2 for _, error in errors) / len(points))
            time.sleep(STEP_S)
            if stop.should_stop:
                save(slope, offset, step + 1)
                print(f"asked to stop: saved after step {step + 1}", flush=True)
                stop.requeue()
    print(f"y = {slope:.2f} x + {offset:.2f}")


def resume() -> tuple[float, float, int]:
    path = train.resume_path()
    if path is None:
        return 0.0, 0.0, 0
    with open(path) as file:
        saved = json.load(file)
    return saved["slope"], saved["offset"], saved["step"]


def save(slope: float, offset: float, step: int) -> None:
    path = os.path.join(os.environ.get("WEFT_CKPT_DIR", "."), "fit.json")
    with open(path, "w") as file:
        json.dump({"slope": slope, "offset": offset, "step": step}, file)
    train.checkpoint(path)


if __name__ == "__main__":
    main()
