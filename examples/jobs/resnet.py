"""A training job to try a scheduler with, on CPUs: a small residual network in numpy, on generated points.

The params of the job set its hyperparameters. It reports each epoch and resumes from its last checkpoint.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
from weft import train

EPOCHS = int(os.environ.get("WEFT_PARAM_EPOCHS", "90"))
BATCH = int(os.environ.get("WEFT_PARAM_BATCH_SIZE", "64"))
RATE = float(os.environ.get("WEFT_PARAM_LEARNING_RATE", "0.001"))
MOMENTUM = float(os.environ.get("WEFT_PARAM_MOMENTUM", "0.9"))
DECAY = float(os.environ.get("WEFT_PARAM_WEIGHT_DECAY", "0.0001"))
POINTS, INPUTS, WIDTH, BLOCKS = 1024, 8, 32, 4
EPOCH_S = 0.2
"""A pause after each epoch, so that the job runs long enough to watch."""
SAVED = Path(os.environ.get("WEFT_CKPT_DIR", "."), "resnet.npz")

Weights = list[np.ndarray]


def main() -> None:
    chance = np.random.default_rng(0)
    points = chance.standard_normal((POINTS, INPUTS))
    wanted = np.sin(points @ chance.standard_normal((INPUTS, 1)))
    shapes = [(INPUTS, WIDTH), *[(WIDTH, WIDTH)] * BLOCKS, (WIDTH, 1)]
    weights = [chance.standard_normal(shape) / np.sqrt(shape[0]) for shape in shapes]
    speeds = [np.zeros(shape) for shape in shapes]
    first = resume(weights, speeds)
    print(f"run {os.environ.get('WEFT_RUN', '1')}: epochs {first + 1} to {EPOCHS}", flush=True)
    with train.preemptible() as stop:
        for epoch in range(first, EPOCHS):
            order = chance.permutation(POINTS)
            losses = [
                step(points[some], wanted[some], weights, speeds) for some in np.array_split(order, -(-POINTS // BATCH))
            ]
            train.progress(epoch + 1, EPOCHS, loss=float(np.mean(losses)))
            print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}", flush=True)
            if stop.should_stop or epoch % 10 == 9:
                save(weights, speeds, epoch + 1)
            if stop.should_stop:
                stop.requeue()
            time.sleep(EPOCH_S)


def step(points: np.ndarray, wanted: np.ndarray, weights: Weights, speeds: Weights) -> float:
    """Train on one batch, forwards and backwards; return the mean squared error before it."""
    layers = [points @ weights[0]]
    for weight in weights[1:-1]:
        layers.append(layers[-1] + np.tanh(layers[-1]) @ weight)
    error = layers[-1] @ weights[-1] - wanted
    back = 2 * error / len(points)
    slopes = [layers[-1].T @ back]
    flow = back @ weights[-1].T
    for layer, weight in zip(reversed(layers[:-1]), reversed(weights[1:-1]), strict=True):
        slopes.append(np.tanh(layer).T @ flow)
        flow = flow + (flow @ weight.T) * (1 - np.tanh(layer) ** 2)
    slopes.append(points.T @ flow)
    for weight, speed, slope in zip(weights, speeds, reversed(slopes), strict=True):
        speed *= MOMENTUM
        speed += slope + DECAY * weight
        weight -= RATE * speed
    return float(np.mean(error**2))


def resume(weights: Weights, speeds: Weights) -> int:
    """Load the last checkpoint, if there is one; return the number of completed epochs."""
    path = train.resume_path()
    if path is None:
        return 0
    with np.load(path) as saved:
        for at, array in enumerate((*weights, *speeds)):
            array[:] = saved[f"a{at}"]
        return int(saved["epoch"])


def save(weights: Weights, speeds: Weights, epoch: int) -> None:
    temporary = SAVED.with_name(f".{SAVED.name}")
    with open(temporary, "wb") as file:
        np.savez(file, epoch=epoch, **{f"a{at}": array for at, array in enumerate((*weights, *speeds))})
    temporary.replace(SAVED)
    train.checkpoint(SAVED)


if __name__ == "__main__":
    main()
