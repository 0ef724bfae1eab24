"""Concurrency: replicas for the requests in progress, for services that hold a slot per request, such as LLM streams.

A request of a language model takes seconds to minutes, so a rate says little about the load; the requests that are
served or wait do. Do not use it for services that batch: a backlog inflates it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.scheduling.scaling.port import Autoscaler, Load, Wish, check_positive
from weft.scheduling.scaling.recent import out_now_in_later


@dataclass(frozen=True)
class Concurrency(Autoscaler):
    """Requests in progress per slot; for streams of language models."""

    by = "concurrency"
    target: float = 1.0
    """The part of its slots that a replica should use."""
    window: int = 3
    """Seconds over which the requests in progress are averaged."""
    keep: int = 60
    """Seconds for which the most replicas wanted are kept."""

    def __post_init__(self) -> None:
        check_positive(window=self.window, target=self.target, keep=self.keep)

    def begin(self) -> Any:
        return (), ()

    def decide(self, memory: Any, load: Load) -> tuple[Any, Wish]:
        counts, wants = memory
        counts = (*counts, load.in_flight + load.queued)[-self.window :]
        count = sum(counts) / len(counts)
        why = f"{count:.1f} requests at {self.target:g} of {load.slots} slots"
        wants, wish = out_now_in_later(wants, count / (load.slots * self.target), load, self.keep, why)
        return (counts, wants), wish
