"""Networks that play games: the convolutions of the DQN of 2015, or a small dense network, with one or two heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

PIXELS = 84
FRAMES = 4


def body(observation: tuple[int, ...], tiny: bool) -> tuple[nn.Module, int]:
    """Return layers for an observation and their number of outputs: convolutions for frames, else dense layers."""
    if observation == (FRAMES, PIXELS, PIXELS):
        width = 8 if tiny else 32
        return nn.Sequential(
            nn.Conv2d(FRAMES, width, 8, 4), nn.ReLU(), nn.Conv2d(width, 2 * width, 4, 2), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3), nn.ReLU(), nn.Flatten(),
            nn.Linear(2 * width * 49, 16 * width), nn.ReLU(),
        ), 16 * width  # fmt: skip
    inputs = int(torch.Size(observation).numel())
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()), 64


class ActorCritic(nn.Module):
    """A2C: scores of actions and the value of the state."""

    def __init__(self, observation: tuple[int, ...], actions: int, tiny: bool) -> None:
        super().__init__()
        self.body, outputs = body(observation, tiny)
        self.actor, self.critic = nn.Linear(outputs, actions), nn.Linear(outputs, 1)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(observations)
        return self.actor(features), self.critic(features).squeeze(-1)


class ActionValues(nn.Module):
    """DQN: the value of every action."""

    def __init__(self, observation: tuple[int, ...], actions: int, tiny: bool) -> None:
        super().__init__()
        self.body, outputs = body(observation, tiny)
        self.values = nn.Linear(outputs, actions)

    def forward(self, observations: Tensor) -> Tensor:
        return self.values(self.body(observations))


def build(name: str, observation: tuple[int, ...], actions: int, tiny: bool) -> nn.Module:
    """Return the network of an algorithm by name."""
    return (ActorCritic if name == "a2c" else ActionValues)(observation, actions, tiny)
