"""Services: a template of replicas, and the rule that says how many of them there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.model.job import Job


@dataclass(frozen=True, slots=True)
class ScaleRule:
    """The bounds of a service's number of replicas, and the autoscaler that decides."""

    scaler: str = "deficit"
    """The name of an autoscaler, with options as in `lazy:window=40`."""
    min_replicas: int = 1
    max_replicas: int = 1
    to_zero_after_s: float = 60.0
    """The last replica goes after this long without a request; only if `min_replicas` is 0."""
    throughput: float | None = None
    """Requests per second of one replica, until the scheduler has seen a saturated one; None: unknown."""


@dataclass(frozen=True, slots=True)
class Health:
    """The probes by which a replica shows that it serves."""

    path: str = "/health"
    start_within_s: float = 120.0
    """A run that is not ready by then is stopped."""
    every_s: float = 5.0
    fails: int = 3
    """After this many failed probes in a row the replica is replaced."""
    warmup_path: str = ""
    """Requests to this path come before a replica counts as ready; empty: none."""
    warmup_body: str = ""
    """The body of these requests, which are then POSTs; empty: they are GETs."""
    warmup_requests: int = 1


@dataclass(frozen=True, slots=True)
class Timeouts:
    queue_s: float = 60.0
    """The longest that a request waits for a replica."""
    answer_s: float = 60.0
    """The longest that a replica takes to begin its answer."""
    idle_s: float = 120.0
    """The longest silence within an answer."""
    drain_s: float = 30.0
    """A replica that is drained stops after this time even if it still answers requests."""


@dataclass(frozen=True, slots=True)
class UpdateRule:
    """The rule by which a new version replaces the one before."""

    surge: float = 0.25
    """The part of a service's replicas, rounded up, that may run in addition while replicas are replaced."""
    tries: int = 3
    """Failed starts after which a version that was never ready counts as failed."""
    rollback: bool = True
    """True: the last version that was ready once replaces a failed one."""
    error_gate: bool = True
    """True: a new version also counts as failed if it answers far more requests with errors than the one before."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """The state of one version of a service."""

    versions: tuple[int, ...] = ()
    """Earlier versions whose replicas run the same program, as after a rollback."""
    ready_at: float | None = None
    """When a replica of it was first ready; None: none ever was."""
    failed_starts: int = 0
    """Starts that failed before a replica of it was ready."""
    why: str = ""
    """Why its last start failed, or why the version before it was rolled back."""
    deployed_at: float = 0.0
    who: str = ""
    """The user who deployed it; empty: the scheduler did, as a rollback."""
    rolled_back: bool = False
    """True: a rollback replaced it."""


@dataclass(frozen=True, slots=True)
class RoutingRule:
    """The rule by which routers queue and repeat requests."""

    retry: str = "safe"
    """The requests that another replica gets after one has read them: never, connect, safe or unanswered."""
    max_queue: int = 1000
    """Requests that wait; further ones are refused."""
    balance: str = "p2c"
    """The choice of a replica: p2c, of two drawn at random the one with fewer requests, or round_robin, in turn."""


DEFAULT_ROUTING: Final = RoutingRule()
DEFAULT_UPDATE: Final = UpdateRule()
DEFAULT_SCALE: Final = ScaleRule()
DEFAULT_HEALTH: Final = Health()
DEFAULT_TIMEOUTS: Final = Timeouts()


@dataclass(frozen=True, slots=True)
class Service:
    """An inference service. Its replicas are jobs made from `template`, in the group of its name."""

    name: str
    template: Job
    scale: ScaleRule = DEFAULT_SCALE
    health: Health = DEFAULT_HEALTH
    timeouts: Timeouts = DEFAULT_TIMEOUTS
    version: int = 1
    """Rises with each change that needs new replicas."""
    concurrency: int = 1
    """Requests that one replica answers at once; further requests wait in the router."""
    slo_s: float | None = None
    """The latency that the service promises; it is reported, and profiles are searched for it."""
    models: tuple[str, ...] = ()
    """The models by which OpenAI requests select it."""
    update: UpdateRule = DEFAULT_UPDATE
    routing: RoutingRule = DEFAULT_ROUTING

    def runs_like(self, other: Service) -> bool:
        """Return whether replicas of the two are the same program with the same probes."""
        return self.template == other.template and self.health == other.health


@dataclass(frozen=True, slots=True)
class Revision:
    """An earlier version of a service, and what became of it."""

    service: Service
    rollout: Rollout
