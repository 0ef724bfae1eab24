"""Measured figures with their goals, and the minimum of several measurements on a shared machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A measured value, with a goal or without."""

    what: str
    value: float
    unit: str
    goal: float | None = None
    more_is_better: bool = False

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value >= self.goal if self.more_is_better else self.value <= self.goal

    def line(self) -> str:
        goal = "" if self.goal is None else f"{'>=' if self.more_is_better else '<='} {self.goal:,.10g}"
        verdict = {None: "", True: "ok", False: "MISSED"}[self.met]
        value = f"{self.value:,.0f}" if abs(self.value) >= 100 else f"{self.value:.3g}"
        return f"  {self.what:<52} {value:>12} {self.unit:<12} {goal:<14} {verdict}".rstrip()


def least(measure: Callable[[], float], runs: int = 3) -> float:
    """Return the smallest of several measurements. Other processes of the machine cause the excess."""
    return min(measure() for _ in range(runs))
