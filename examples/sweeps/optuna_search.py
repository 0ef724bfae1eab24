"""A search by Optuna whose trials are jobs of Weft: python examples/sweeps/optuna_search.py --trials 12 --parallel 4

Optuna suggests parameters, Weft runs the trials, and the search learns from the metrics that they report. The jobs form
a sweep: weft sweep results NAME compares them. Needs the extra weft[sweeps].
"""

from __future__ import annotations

import argparse

import optuna
import weft
from weft import train


@weft.job(gpus=0)
def objective(lr: float, momentum: float, steps: int = 20) -> dict[str, float]:
    """Minimise a parabola by gradient descent with momentum: the loss shows how well that went."""
    place, speed = 1.0, 0.0
    for step in range(1, steps + 1):
        speed = momentum * speed - lr * 2 * place
        place = max(min(place + speed, 1e6), -1e6)
        train.progress(step, steps, loss=place**2)
    return {"loss": place**2}


def search(trials: int, parallel: int, sweep: str, seed: int = 0) -> optuna.Study:
    """Run this many trials, some of them at a time."""
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    for first in range(0, trials, parallel):
        asked = [study.ask() for _ in range(min(parallel, trials - first))]
        calls = [
            {"lr": trial.suggest_float("lr", 1e-3, 1.0, log=True), "momentum": trial.suggest_float("momentum", 0, 0.95)}
            for trial in asked
        ]
        for trial, job in zip(asked, objective.submit_many(calls, sweep=sweep), strict=True):
            failed = job.wait() != 0
            metrics = (job.progress or {}).get("metrics", {})
            if failed or metrics.get("loss") is None:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, metrics["loss"])
    return study


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--sweep", default="optuna", help="the name of the sweep")
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    best = search(args.trials, args.parallel, args.sweep).best_trial
    shown = ", ".join(f"{name} {value:.3g}" for name, value in best.params.items())
    print(f"best of {args.trials} trials: loss {best.value:.3g} with {shown}")


if __name__ == "__main__":
    main()
