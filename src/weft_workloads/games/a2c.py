"""A2C: several games at a time, a few moves of each per update, advantages from the value of the last state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from weft_workloads.games.environments import Player, make_environment
from weft_workloads.games.scores import EVALUATION_NUMBER, Scores, evaluate
from weft_workloads.models import rl

ENTROPY: Final = 0.01
"""Weight of the entropy, which keeps the actions varied."""
EVALUATION_GAMES: Final = 20


class A2cTask:
    """Plays and learns from what was played."""

    def __init__(
        self, environment: str, tiny: bool, *, environments: int, batch_size: int, gamma: float, seed: int, rank: int,
        device: torch.device,
    ) -> None:  # fmt: skip
        self.gamma, self.seed, self.rank, self.device = gamma, seed, rank, device
        self.moves = max(batch_size // environments, 1)
        self.players = [
            Player(make_environment(environment, tiny), seed, rank * 10_000 + at) for at in range(environments)
        ]
        self.judge = Player(make_environment(environment, tiny), seed, EVALUATION_NUMBER)
        first = self.players[0]
        self.scale = 255.0 if first.environment.observation_space.dtype == np.uint8 else 1.0
        self.model: nn.Module = rl.build("a2c", first.observation_shape, first.action_count, tiny).to(device)
        self.scores = Scores()
        self.steps_per_epoch = 0

    def _tensor(self, observations: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(observations)).to(self.device, torch.float32) / self.scale

    def batches(self, first_step: int, last_step: int) -> Iterator[tuple[Tensor, ...]]:
        for step in range(first_step, last_step):
            yield self._play(np.random.default_rng([self.seed, self.rank, step]))

    @torch.no_grad()
    def _play(self, chance: np.random.Generator) -> tuple[Tensor, ...]:
        seen, chosen, rewards, ended = [], [], [], []
        for _ in range(self.moves):
            observations = self._tensor([player.observation for player in self.players])
            logits = self.model(observations)[0].cpu().numpy()
            # the highest of scores plus Gumbel noise is a draw from their softmax
            actions = (logits + chance.gumbel(size=logits.shape)).argmax(axis=1)
            results = [player.play(int(action)) for player, action in zip(self.players, actions, strict=True)]
            for result in results:
                self.scores.add(result[3])
            seen.append(observations)
            chosen.append(torch.from_numpy(actions).to(self.device))
            rewards.append(torch.tensor([result[0] for result in results], device=self.device))
            ended.append(torch.tensor([result[3] is not None for result in results], device=self.device))
        following = self.model(self._tensor([player.observation for player in self.players]))[1]
        returns = []
        for reward, end in zip(reversed(rewards), reversed(ended), strict=True):
            following = reward + self.gamma * following * ~end
            returns.append(following)
        return torch.cat(seen), torch.cat(chosen), torch.cat(returns[::-1])

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        observations, actions, returns = batch
        logits, values = model(observations)
        logs = functional.log_softmax(logits, dim=-1)
        advantages = (returns - values).detach()
        gain = (logs.gather(1, actions[:, None]).squeeze(1) * advantages).mean()
        entropy = -(logs.exp() * logs).sum(dim=1).mean()
        return functional.mse_loss(values, returns) / 2 - gain - ENTROPY * entropy

    def after_step(self, step: int) -> None:
        """Do nothing: A2C has no second network."""

    def metrics(self) -> dict[str, float]:
        return self.scores.metrics()

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> dict[str, float]:
        def choose(observation: np.ndarray) -> int:
            return int(model(self._tensor([observation]))[0].argmax())

        return {"evaluation_reward": evaluate(self.judge, choose, EVALUATION_GAMES)}

    def state(self) -> dict[str, Any]:
        return {"players": [player.state() for player in self.players], "scores": list(self.scores.last)}

    def load(self, state: dict[str, Any]) -> None:
        self.scores.last.extend(state["scores"])
        for player, saved in zip(self.players, state["players"], strict=False):
            player.load(saved)
