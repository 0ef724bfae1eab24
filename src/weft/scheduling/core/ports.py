"""The interfaces that the author of a policy or a placement reads.

A *policy* orders jobs. Most policies are a key: smaller first, ties as `scheduling.core.state.state` explains. A
*replanner* plans the whole cluster: it returns asks, and earlier asks win. A *placement* chooses nodes. All of them are
frozen dataclasses; their fields are their options.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from weft.model import ANYWHERE, WHOLE, Fact, Job, JobId, Profile, Seconds, Share, Slots, Where
from weft.model.plain_init import plain_init
from weft.scheduling.core.resources.free import Free
from weft.scheduling.core.resources.node import Holder, NodeResources
from weft.scheduling.core.resources.shapes import Shape

PATIENCE_S: Final = 600.0
"""The usual patience of a policy for users that declare no times."""


class JobView(Protocol):
    """A job as policies see it."""

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
        """The part of each GPU that its next run will hold."""

    @property
    def seq(self) -> int:
        """The sequence number of its submission."""

    @property
    def tie_breaker(self) -> int:
        """The order of jobs of equal keys, smaller first; `scheduling.core.state.state` explains it."""

    @property
    def key(self) -> float | None:
        """The key it last stepped to; None: it never stepped."""

    @property
    def run(self) -> int:
        """The number of the latest run; 0: it never ran."""

    @property
    def measured_mb(self) -> int:
        """The most memory measured on one of its GPUs."""

    @property
    def unwoven(self) -> str:
        """Why the job is not woven any more; empty: it may be woven."""

    @property
    def waits(self) -> bool:
        """True while the job could start."""

    @property
    def active(self) -> bool:
        """True while the job holds GPUs: starting, running or stopping."""

    @property
    def submitted_at(self) -> Seconds: ...
    @property
    def rate(self) -> float:
        """Solo seconds of work done per second; 0 while the job does not run."""

    @property
    def rate_since(self) -> Seconds:
        """When `rate`, `remaining_s` and `worked_s` were last set."""

    @property
    def remaining_s(self) -> float | None:
        """The solo seconds of work that were left then; None: unknown. `remaining` has those of now."""

    @property
    def worked_s(self) -> float:
        """The solo seconds of work that were done then; `worked` has those of now."""

    @property
    def slots(self) -> Slots: ...
    @property
    def weave(self) -> tuple[JobId, ...]:
        """The jobs that its run is woven with, itself included; empty: it runs alone or waits."""

    @property
    def reserved(self) -> Slots: ...
    def attained(self, now: Seconds) -> float:
        """Return the seconds it held GPUs, over all its runs."""

    def worked(self, now: Seconds) -> float:
        """Return the solo seconds of work done that its next run need not repeat. A job in a slow weave attains more
        seconds than it works."""

    def remaining(self, now: Seconds) -> float:
        """Return the solo seconds of work left; infinite where unknown."""


class Policy:
    """A policy that orders jobs by a key. An attribute that a subclass annotates becomes an option."""

    preempts: bool = False
    """True if a waiting job may take the GPUs of a running job with a larger key."""
    backfill: bool = False
    """True if jobs may pass a job that does not fit. Without preemption only jobs that do not delay it may pass: the
    first job that does not fit gets a reservation (EASY)."""
    patience: float = 0.0
    """Seconds that a job which does not fit waits before it gets a reservation. Until then all jobs that fit may pass
    it. Only for policies that backfill and do not preempt."""
    weaves: ClassVar[bool] = False
    """True if the policy interleaves jobs on one set of GPUs. Jobs need a profile for that."""
    oversubscription: float = 1.0
    """The largest sum of limits on one GPU."""
    placement: str = "packed"
    """The default placement of the policy."""

    def key(self, job: JobView, now: Seconds) -> float:
        """Return the key; smaller goes first. It must not change while the job waits."""
        raise TypeError(f"{type(self).__name__} has no key")

    def slope(self, job: JobView) -> float:
        """Return how much the key grows per second while the job holds GPUs, given its present rate."""
        return 0.0

    def until(self, job: JobView, now: Seconds) -> Seconds | None:
        """Return when the key of a running job next steps, for keys that start at 0, stand still, and jump."""
        return None

    def memo(self) -> Any:
        """Return the initial memory that `observe` folds facts into."""
        return None

    def observe(self, memo: Any, fact: Fact) -> Any:
        """Fold a fact into the policy's memory. A replay of the journal restores it."""
        return memo

    def key_from(self, memo: Any, job: JobView, now: Seconds) -> float:
        """Return the key of a policy that uses its memory. The key may step: the first event at or after `until` asks
        for it again."""
        return self.key(job, now)

    def epoch(self, memo: Any) -> int:
        """Return a number; when it changes, the scheduler asks for every key again."""
        return 0

    def queue(self, job: JobView) -> Hashable:
        """Return the queue a job waits in, for replanners with queues; `view.firsts` has the first job of each."""
        return None


@plain_init
@dataclass(frozen=True, slots=True)
class Ask:
    """A request for GPUs for these jobs; several jobs are a weave, and take turns in this order in lock-step."""

    jobs: tuple[JobId, ...]
    gpus: int
    share: Share = WHOLE
    where: Where = ANYWHERE
    reserve: bool = False
    """True to reserve the pinned GPUs without starting the jobs."""


class Trial(Protocol):
    """A scratch copy of the living nodes without training jobs, to place on tentatively. For a policy that weaves it
    has no GPUs that nothing new may start on, such as those of cordoned nodes."""

    @property
    def idle_gpus(self) -> int:
        """GPUs that neither a replica of a service holds nor `fits` has taken."""

    def fits(self, shape: Shape) -> bool:
        """Take what this shape needs, as the placement would; return False and take nothing if it does not fit."""


class View(Protocol):
    """The cluster as a replanner sees it."""

    @property
    def now(self) -> Seconds: ...
    @property
    def gpus(self) -> int:
        """GPUs of the living nodes."""

    @property
    def memo(self) -> Any:
        """The memory that `observe` built."""

    @property
    def node_gpus(self) -> Mapping[str, int]:
        """The living nodes in order, and how many GPUs each has."""

    @property
    def waiting(self) -> Iterable[JobView]: ...
    @property
    def active(self) -> Iterable[JobView]:
        """The runs that the policy may move. A policy that weaves does not see runs on cordoned nodes and on GPUs that
        are blocked: they stay where they are, with their partners."""

    @property
    def idle_gpus(self) -> int:
        """GPUs without a holder."""

    @property
    def full(self) -> bool:
        """True if no waiting job could start: no GPU is idle, and all waiting jobs need whole GPUs."""

    @property
    def restarts_all(self) -> bool:
        """True if each plan restarts every run, as in Muri's simulator; otherwise only runs that move restart."""

    def job(self, job: JobId) -> JobView: ...
    def restart_cost_s(self, job: JobView) -> Seconds:
        """Estimate the seconds that a running job would lose if it were preempted: the work since its last checkpoint,
        and the start-up of its next run. A run that only gets other partners loses nothing."""

    def expected_left_s(self, job: JobView) -> float:
        """Return the seconds that a job will probably still take: as it declares or reports, else what similar jobs of
        its user took on average; infinite where unknown."""

    def profile(self, job: JobView) -> Profile | None:
        """Return the stage times of a job: its own, or the ones that were measured for its kind; None: unknown."""

    def shapes(self) -> Iterable[Shape]:
        """Return the shapes of all jobs that wait or hold GPUs."""

    def ordered(self, shape: Shape) -> Iterator[tuple[float, JobView]]:
        """Yield jobs of a shape with their keys, smallest first; lazy."""

    def in_order(self) -> Iterator[tuple[float, JobView]]:
        """Yield the jobs of all shapes with their keys, smallest first; lazy: the first few cost no full sort."""

    def firsts(self) -> Iterable[tuple[Hashable, JobView]]:
        """Return the queues with waiting jobs, each with its first job by key."""

    def first(self, queue: Hashable) -> JobView | None:
        """Return the first job in a queue."""

    def queued(self, queue: Hashable) -> Sequence[JobView]:
        """Return all jobs in a queue, best first."""

    def trial(self) -> Trial: ...


class Replanner(Policy):
    """A policy that plans the whole cluster each time, instead of ordering jobs by a key."""

    interval_s: float = 0.0
    """The least time between two plans; 0: plan at every event."""

    def rank(self, view: View) -> Iterable[Ask]:
        """Return the asks, most wanted first. An ask for a running weave with members more or less lets the others
        run on: only jobs that leave their GPUs restart."""
        raise TypeError(f"{type(self).__name__} has no rank")

    def wake_at(self, view: View) -> Seconds | None:
        """Return when to plan again although nothing happens until then; None: never. Called after each plan."""
        return None


class ReplicaMove(NamedTuple):
    """A replica on one GPU that may go to another GPU."""

    holder: Holder
    node: int
    """The index of the node of its new GPU."""
    gpu: int


class Placement:
    """A placement chooses nodes. A subclass sets the capabilities it has to True."""

    splits_gangs: ClassVar[bool] = False
    """True if the placement splits gangs that one node could hold. It treats all GPUs alike: no run needs to move."""
    fills_nodes: ClassVar[bool] = False
    """True if the placement gives gangs too large for one node whole nodes, and a part of one node for the rest."""
    sees_runs: ClassVar[bool] = False
    """True if the placement looks at the runs on each node (`free.nodes`), not at counts alone."""

    moves_per_minute: int = 0
    """The most replicas of services that may move to other GPUs within a minute; 0: `propose_moves` is not called."""

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        """Return how many GPUs on which nodes (indices in `free`), or None.

        If n GPUs do not fit, n + 1 must not either, unless only the latter are more than the largest node has.
        """
        raise TypeError(f"{type(self).__name__} has no place")

    def pick(self, host: NodeResources, count: int, shape: Shape, fitting: Sequence[int]) -> Sequence[int]:
        """Choose from a node's fitting GPUs. A placement without this method leaves the choice to the core."""
        raise TypeError(f"{type(self).__name__} has no pick")

    def propose_moves(
        self, nodes: Sequence[NodeResources], movable: Collection[Holder], avoided: Collection[tuple[int, int]]
    ) -> Sequence[ReplicaMove]:
        """Return moves that would empty a GPU, the most useful first. Only these replicas may move, and not to the
        avoided GPUs (index of the node, GPU)."""
        return ()


def check_patience(patience_s: Seconds) -> None:
    if patience_s < 0:
        raise ValueError(f"patience must not be below 0 seconds, but is {patience_s:g}")
