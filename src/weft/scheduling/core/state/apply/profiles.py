"""Facts about the stage times of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.model import Profiled
from weft.model.profiles import problem_of_profile

if TYPE_CHECKING:
    from weft.scheduling.core.state.state import State


def profiled(state: State, fact: Profiled) -> bool:
    """Store the profile, unless it makes no sense. The first profile of its kind calls for a plan."""
    if fact.gpus < 1 or problem_of_profile(fact.profile):
        return False
    if state.profiles.learn(fact):
        state.news = True
    return True
