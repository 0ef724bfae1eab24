"""All that the author of a policy or a placement reads.

A *policy* says who goes first. Most are a key: smaller first, equals in the order that `core.state.state` explains. A
*replanner* plans the whole cluster: it returns asks, earlier ones win. A *placement* says on which nodes.
They are frozen dataclasses; their fields are their options.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from weft.core.resources.free import Free
from weft.core.resources.node import NodeResources
from weft.core.resources.shapes import Shape
from weft.model import ANYWHERE, WHOLE, Fact, Job, JobId, Seconds, Share, Slots, Where


class JobView(Protocol):
    """What a scheduler knows of a job."""

    @property
    def id(self) -> JobId: ...
    @property
    def job(self) -> Job: ...
    @property
    def shape(self) -> Shape: ...
    @property
    def gpus(self) -> int: ...
    @property
    def wanted_share(self) -> Share:
        """What its next run is to hold of each GPU."""

    @property
    def seq(self) -> int:
        """Rises with each submission."""

    @property
    def tie_breaker(self) -> int:
        """Tells equal keys apart, smaller first: `core.state.state` says how."""

    @property
    def key(self) -> float | None:
        """The key it last stepped to; None: it never has."""

    @property
    def run(self) -> int:
        """The number of the latest run; 0: it has never run."""

    @property
    def waits(self) -> bool:
        """It could be started."""

    @property
    def active(self) -> bool:
        """It holds GPUs: starting, running or stopping."""

    @property
    def submitted_at(self) -> Seconds: ...
    @property
    def rate(self) -> float:
        """Solo seconds of work done per second; 0 while it does not work."""

    @property
    def slots(self) -> Slots: ...
    @property
    def reserved(self) -> Slots: ...
    def attained(self, now: Seconds) -> float:
        """Seconds it has held GPUs for, over all its runs."""

    def remaining(self, now: Seconds) -> float:
        """Solo seconds of work still to do; infinite where nobody knows."""


class Policy:
    """Who goes first, as a key. A subclass that annotates one of these attributes makes an option of it."""

    preempts: bool = False
    """Whether a waiting job may take the GPUs of a running one with a larger key."""
    backfill: bool = False
    """Whether those behind a job that does not fit may go ahead of it. Where nobody can be stopped for it later, only
    those who do not delay it: the first that does not fit gets a reservation (EASY)."""
    weaves: ClassVar[bool] = False
    """Whether it interleaves jobs on one set of GPUs: that takes jobs that were made for it."""
    oversubscription: float = 1.0
    """The sum of limits that one GPU may carry."""
    placement: str = "packed"
    """The placement it brings along."""

    def key(self, job: JobView, now: Seconds) -> float:
        """Smaller goes first. It must not change while the job waits."""
        raise TypeError(f"{type(self).__name__} has no key")

    def slope(self, job: JobView) -> float:
        """How much the key grows per second while the job holds its GPUs, given its present rate."""
        return 0.0

    def until(self, job: JobView, now: Seconds) -> Seconds | None:
        """When the key of a running job next steps, for keys that stand still, at 0 first, and then jump."""
        return None

    def memo(self) -> Any:
        """What `observe` starts from."""
        return None

    def observe(self, memo: Any, fact: Fact) -> Any:
        """Folds a fact into the policy's memory; a replay of the journal restores it."""
        return memo

    def key_from(self, memo: Any, job: JobView, now: Seconds) -> float:
        """The key of a policy that goes by its memory. It may also step: `until` says when to look at it again, at
        the first event from then on."""
        return self.key(job, now)

    def epoch(self, memo: Any) -> int:
        """When this changes, memory has changed so much that every key is asked for again."""
        return 0

    def queue(self, job: JobView) -> Hashable:
        """Which queue a job waits in, for replanners that go by queues: `view.firsts` has the first of each."""
        return None


@dataclass(frozen=True, slots=True)
class Ask:
    """A wish: these jobs on these many GPUs. More than one job is a weave."""

    jobs: tuple[JobId, ...]
    gpus: int
    share: Share = WHOLE
    where: Where = ANYWHERE
    reserve: bool = False
    """Do not start it: only promise it the pinned GPUs."""


class Trial(Protocol):
    """A scratch copy of the living nodes, empty, to place on tentatively."""

    def fits(self, shape: Shape) -> bool:
        """Takes what this shape needs, as the placement would; False, and nothing taken, where it does not fit."""


class View(Protocol):
    """The cluster as a replanner sees it."""

    @property
    def now(self) -> Seconds: ...
    @property
    def gpus(self) -> int:
        """GPUs of the living nodes."""

    @property
    def memo(self) -> Any:
        """What `observe` has gathered."""

    @property
    def node_gpus(self) -> Mapping[str, int]:
        """The living nodes in order, and how many GPUs each has."""

    @property
    def waiting(self) -> Iterable[JobView]: ...
    @property
    def active(self) -> Iterable[JobView]: ...
    @property
    def idle_gpus(self) -> int:
        """GPUs that nobody holds."""

    @property
    def full(self) -> bool:
        """Nobody who waits could start: no GPU is idle, and all of them want whole ones."""

    def job(self, job: JobId) -> JobView: ...
    def shapes(self) -> Iterable[Shape]:
        """The shapes of all that wait or hold GPUs."""

    def ordered(self, shape: Shape) -> Iterator[tuple[float, JobView]]:
        """Jobs of a shape with their keys, smallest first; lazy."""

    def firsts(self) -> Iterable[tuple[Hashable, JobView]]:
        """The queues in which anybody waits, each with its first by key."""

    def first(self, queue: Hashable) -> JobView | None:
        """Who is first in a queue now."""

    def queued(self, queue: Hashable) -> Sequence[JobView]:
        """All in a queue, best first."""

    def trial(self) -> Trial: ...


class Replanner(Policy):
    """Who runs with what, planned anew for the whole cluster each time."""

    interval_s: float = 0.0
    """Plan at most this often; 0: whenever something happens."""

    def rank(self, view: View) -> Iterable[Ask]:
        """The asks, most wanted first."""
        raise TypeError(f"{type(self).__name__} has no rank")


class Placement:
    """On which nodes. A subclass that needs one of these capabilities sets it to True."""

    splits_gangs: ClassVar[bool] = False
    """It splits gangs that one node could hold: all GPUs are alike to it, so that no run ever needs to move."""
    fills_nodes: ClassVar[bool] = False
    """It gives gangs that no node could hold whole nodes, and one part of a node for the rest."""
    sees_runs: ClassVar[bool] = False
    """It looks at `free.nodes`, at the runs on each, and not at counts alone."""

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        """How many GPUs on which node (its place in `free`), or None.

        If n GPUs do not fit, n + 1 must not either, unless only the latter are more than the largest node has.
        """
        raise TypeError(f"{type(self).__name__} has no place")

    def pick(self, host: NodeResources, count: int, shape: Shape, fitting: Sequence[int]) -> Sequence[int]:
        """Which of a node's fitting GPUs. Without a method of its own, a placement leaves that to the core."""
        raise TypeError(f"{type(self).__name__} has no pick")
