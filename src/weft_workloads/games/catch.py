"""A small game: a ball falls, and a paddle must be under it. As a grid of cells, or as four frames of 84 pixels."""

from __future__ import annotations

from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium import spaces

ROWS: Final = 8
COLUMNS: Final = 5
FRAMES: Final = 4
PIXELS: Final = 84
MOVES: Final = (0, 0, 1, -1, 1, -1)
"""The actions of Pong: none, fire, right, left, and right and left with fire. The grid has the first and two moves."""


class Catch(gymnasium.Env[np.ndarray, int]):
    """One ball per episode: a reward of 1 if it is caught, else -1."""

    def __init__(self, pixels: bool) -> None:
        self.moves = MOVES if pixels else (0, 1, -1)
        self.pixels = pixels
        self.action_space = spaces.Discrete(len(self.moves))
        shape = (FRAMES, PIXELS, PIXELS) if pixels else (ROWS * COLUMNS,)
        self.observation_space = spaces.Box(0, 255 if pixels else 1, shape, np.uint8 if pixels else np.float32)
        self.row = self.column = self.paddle = 0
        self.frames = np.zeros((FRAMES, PIXELS, PIXELS), dtype=np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.row, self.paddle = 0, COLUMNS // 2
        self.column = int(self.np_random.integers(COLUMNS))
        self.frames[:] = 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.paddle = min(max(self.paddle + self.moves[action], 0), COLUMNS - 1)
        self.row += 1
        over = self.row == ROWS - 1
        reward = 0.0 if not over else 1.0 if self.paddle == self.column else -1.0
        return self._observe(), reward, over, False, {}

    def _observe(self) -> np.ndarray:
        grid = np.zeros((ROWS, COLUMNS), dtype=np.float32)
        grid[self.row, self.column] = 1
        grid[-1, self.paddle] = 1
        if not self.pixels:
            return grid.reshape(-1)
        self.frames[:-1] = self.frames[1:]
        rows, columns = np.arange(PIXELS) * ROWS // PIXELS, np.arange(PIXELS) * COLUMNS // PIXELS
        self.frames[-1] = grid[rows][:, columns] * 255
        return self.frames.copy()
