"""Fixed: a constant number of replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.scheduling.scaling.port import Autoscaler, Load, Wish, check_positive


@dataclass(frozen=True)
class Fixed(Autoscaler):
    """A constant number of replicas."""

    replicas: int = 1
    """The number of replicas."""

    def __post_init__(self) -> None:
        check_positive(replicas=self.replicas)

    def decide(self, memory: Any, load: Load) -> tuple[Any, Wish]:
        return memory, Wish(self.replicas, "fixed")
