"""DQN: one game, a memory of transitions to draw batches from, and a second network that follows the first."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from weft_workloads.games.environments import Player, make_environment
from weft_workloads.games.scores import EVALUATION_NUMBER, Scores, evaluate
from weft_workloads.models import rl

MOVES_PER_STEP: Final = 4
EPSILON: Final = (1.0, 0.05)
"""Share of random moves, at first and after `EXPLORATION_STEPS`."""
EXPLORATION_STEPS: Final = {True: 200, False: 25_000}
"""By whether the size is tiny."""
CAPACITY: Final = {True: 5_000, False: 20_000}
WARM_UP_MOVES: Final = {True: 200, False: 2_000}
SYNC_STEPS: Final = {True: 50, False: 1_000}
EVALUATION_GAMES: Final = 20


class Memory:
    """The last transitions, in arrays that are written over from the start again when they are full."""

    def __init__(self, capacity: int, shape: tuple[int, ...], kind: Any) -> None:
        self.before, self.after = np.zeros((capacity, *shape), dtype=kind), np.zeros((capacity, *shape), dtype=kind)
        self.actions, self.rewards = np.zeros(capacity, dtype=np.int64), np.zeros(capacity, dtype=np.float32)
        self.ends = np.zeros(capacity, dtype=np.float32)
        self.capacity, self.written = capacity, 0

    def __len__(self) -> int:
        return min(self.written, self.capacity)

    def add(self, before: np.ndarray, action: int, reward: float, after: np.ndarray, end: bool) -> None:
        at = self.written % self.capacity
        self.before[at], self.actions[at], self.rewards[at], self.after[at], self.ends[at] = (
            before,
            action,
            reward,
            after,
            end,
        )
        self.written += 1

    def draw(self, count: int, chance: np.random.Generator) -> tuple[np.ndarray, ...]:
        at = chance.integers(0, len(self), count)
        return self.before[at], self.actions[at], self.rewards[at], self.after[at], self.ends[at]

    def state(self) -> dict[str, Any]:
        arrays = {name: torch.from_numpy(getattr(self, name)[: len(self)].copy()) for name in _ARRAYS}
        return {"written": self.written, **arrays}

    def load(self, state: dict[str, Any]) -> None:
        self.written = state["written"]
        for name in _ARRAYS:
            getattr(self, name)[: len(self)] = state[name].numpy()


_ARRAYS: Final = ("before", "actions", "rewards", "after", "ends")


class DqnTask:
    """Plays, remembers, and learns from what it remembers."""

    def __init__(
        self, environment: str, tiny: bool, *, batch_size: int, gamma: float, seed: int, rank: int, device: torch.device
    ) -> None:
        self.tiny, self.batch_size, self.gamma = tiny, batch_size, gamma
        self.seed, self.rank, self.device = seed, rank, device
        self.player = Player(make_environment(environment, tiny), seed, rank)
        self.judge = Player(make_environment(environment, tiny), seed, EVALUATION_NUMBER)
        shape, kind = self.player.observation_shape, self.player.environment.observation_space.dtype
        self.scale = 255.0 if kind == np.uint8 else 1.0
        self.model: nn.Module = rl.build("dqn", shape, self.player.action_count, tiny).to(device)
        self.target = copy.deepcopy(self.model).requires_grad_(False)
        self.memory = Memory(CAPACITY[tiny], shape, kind)
        self.scores = Scores()
        self.steps_per_epoch = 0

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.device, torch.float32) / self.scale

    def batches(self, first_step: int, last_step: int) -> Iterator[tuple[Tensor, ...]]:
        for step in range(first_step, last_step):
            chance = np.random.default_rng([self.seed, self.rank, step])
            while len(self.memory) < WARM_UP_MOVES[self.tiny]:
                self._play(1.0, chance)
            share = min(step / EXPLORATION_STEPS[self.tiny], 1.0)
            for _ in range(MOVES_PER_STEP):
                self._play(EPSILON[0] + share * (EPSILON[1] - EPSILON[0]), chance)
            before, actions, rewards, after, ends = self.memory.draw(self.batch_size, chance)
            yield (
                self._tensor(before), torch.from_numpy(actions).to(self.device),
                torch.from_numpy(rewards).to(self.device), self._tensor(after), torch.from_numpy(ends).to(self.device),
            )  # fmt: skip

    @torch.no_grad()
    def _play(self, epsilon: float, chance: np.random.Generator) -> None:
        before = self.player.observation
        if chance.random() < epsilon:
            action = int(chance.integers(self.player.action_count))
        else:
            action = int(self.model(self._tensor(before[None])).argmax())
        reward, end, after, score = self.player.play(action)
        self.memory.add(before, action, reward, after, end)
        self.scores.add(score)

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        before, actions, rewards, after, ends = batch
        with torch.no_grad():
            best = self.target(after).max(dim=1).values
        wanted = rewards + self.gamma * best * (1 - ends)
        return functional.smooth_l1_loss(model(before).gather(1, actions[:, None]).squeeze(1), wanted)

    def after_step(self, step: int) -> None:
        """Copy the network to the second one from time to time."""
        if step % SYNC_STEPS[self.tiny] == 0:
            self.target.load_state_dict(self.model.state_dict())

    def metrics(self) -> dict[str, float]:
        return self.scores.metrics()

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> dict[str, float]:
        def choose(observation: np.ndarray) -> int:
            return int(model(self._tensor(observation[None])).argmax())

        return {"evaluation_reward": evaluate(self.judge, choose, EVALUATION_GAMES)}

    def state(self) -> dict[str, Any]:
        return {
            "player": self.player.state(), "memory": self.memory.state(), "target": self.target.state_dict(),
            "scores": list(self.scores.last),
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        self.player.load(state["player"])
        self.memory.load(state["memory"])
        self.target.load_state_dict(state["target"])
        self.scores.last.extend(state["scores"])
