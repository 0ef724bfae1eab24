"""Environments by name, and players whose place in a game can be saved and found again."""

from __future__ import annotations

from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium import error as gymnasium_error
from gymnasium import spaces

from weft.errors import InputError
from weft_workloads.games.catch import Catch

CATCH: Final = "catch"


def make_environment(name: str, tiny: bool) -> gymnasium.Env[Any, Any]:
    """Return an environment with discrete actions: catch, one of gymnasium, or an Atari game of ale-py."""
    if name == CATCH:
        return Catch(pixels=not tiny)
    try:
        if name.startswith("ALE/"):
            return _atari(name)
        found = gymnasium.make(name)
    except ImportError as error:
        raise InputError(f"the environment {name!r} needs a package: {error}", hint="install it on the node") from error
    except (gymnasium_error.Error, ValueError) as error:
        first = str(error).splitlines()[0][:200]
        raise InputError(
            f"there is no environment {name[:80]!r}: {first}", hint="use catch, or a name that gymnasium knows"
        ) from error
    if not isinstance(found.action_space, spaces.Discrete) or not isinstance(found.observation_space, spaces.Box):
        raise InputError(
            f"{name} does not have discrete actions and numeric observations", hint="use catch, for instance"
        )
    return found


def _atari(name: str) -> gymnasium.Env[Any, Any]:
    try:
        import ale_py
    except ImportError as error:
        raise InputError(f"{name} needs the package ale-py", hint="install ale-py on the node") from error
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    gymnasium.register_envs(ale_py)
    return FrameStackObservation(AtariPreprocessing(gymnasium.make(name, frameskip=1)), 4)


class Player:
    """One game after another. A saved game is its seed and actions: playing them again leads to the same place."""

    def __init__(self, environment: gymnasium.Env[Any, Any], seed: int, number: int) -> None:
        self.environment, self.seed, self.number = environment, seed, number
        self.episode, self.actions, self.score = -1, list[int](), 0.0
        self.observation = self._begin()

    @property
    def observation_shape(self) -> tuple[int, ...]:
        shape = self.environment.observation_space.shape
        assert shape is not None
        return tuple(shape)

    @property
    def action_count(self) -> int:
        space = self.environment.action_space
        assert isinstance(space, spaces.Discrete)
        return int(space.n)

    def _begin(self) -> np.ndarray:
        self.episode += 1
        self.actions, self.score = [], 0.0
        seed = int(np.random.default_rng([self.seed, self.number, self.episode]).integers(2**31))
        return np.asarray(self.environment.reset(seed=seed)[0])

    def play(self, action: int) -> tuple[float, bool, np.ndarray, float | None]:
        """Take an action. Return its reward, whether it ended the game, the state after it, and the score at an end."""
        after, reward, terminated, truncated, _ = self.environment.step(action)
        self.actions.append(action)
        self.score += float(reward)
        self.observation = np.asarray(after)
        reached = self.observation
        if not (terminated or truncated):
            return float(reward), False, reached, None
        score = self.score
        self.observation = self._begin()
        return float(reward), bool(terminated), reached, score

    def state(self) -> dict[str, Any]:
        return {"episode": self.episode, "actions": list(self.actions)}

    def load(self, state: dict[str, Any]) -> None:
        self.episode = state["episode"] - 1
        self.observation = self._begin()
        for action in state["actions"]:
            self.play(action)
