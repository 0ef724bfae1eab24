"""The shares that an instance asks for, and the parts of GPUs that it gets."""

from __future__ import annotations

from typing import Literal, NamedTuple

from weft.model import Share

Kind = Literal["inference", "llm", "training"]


class Demand(NamedTuple):
    """An instance that asks for GPUs: a replica of a service, or the workers of a training job."""

    name: str
    kind: Kind
    share: Share
    """The share of each of its GPUs."""
    memory_mb: tuple[int, ...]
    """Memory of each worker; all workers of a gang run on one node."""
    service: str = ""
    """The service of a replica; replicas of one service get equal neighbours where a placement has that rule."""
    preferred: tuple[int, ...] = ()
    """GPUs of the ledger that come first by that rule, where the ledger does not know which jobs its holders are."""

    @property
    def gang(self) -> bool:
        """True for training: its workers start together and never move."""
        return self.kind == "training"


class Part(NamedTuple):
    """A part of one GPU: the shares and the memory that are charged to it."""

    gpu: int
    request: float
    limit: float
    memory_mb: int


class Move(NamedTuple):
    """A replica that leaves its GPUs for others."""

    name: str
    source: tuple[Part, ...]
    target: tuple[Part, ...]
