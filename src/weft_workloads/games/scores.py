"""Scores of finished games, and games played to evaluate a model."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import numpy as np

from weft_workloads.games.environments import Player

KEPT: Final = 100
EVALUATION_NUMBER: Final = 1_000_000
"""Number of the player that evaluates: its games differ from those of training."""
MAX_MOVES: Final = 20_000


class Scores:
    """The mean score of the last games."""

    def __init__(self) -> None:
        self.last: deque[float] = deque(maxlen=KEPT)

    def add(self, score: float | None) -> None:
        if score is not None:
            self.last.append(score)

    def metrics(self) -> dict[str, float]:
        return {"reward": float(np.mean(self.last))} if self.last else {}


def evaluate(player: Player, choose: Callable[[np.ndarray], int], games: int) -> float:
    """Return the mean score of some games, always the same ones."""
    player.load({"episode": 0, "actions": []})
    scores: list[float] = []
    for _ in range(MAX_MOVES):
        score = player.play(choose(player.observation))[3]
        if score is not None:
            scores.append(score)
        if len(scores) == games:
            break
    return float(np.mean(scores)) if scores else player.score
