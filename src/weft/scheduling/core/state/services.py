"""The state of services. Any code may read it; only `State.apply` writes it."""

from __future__ import annotations

from typing import Final

from weft.model import Health, JobId, NodeId, Revision, Rollout, Seconds, Service
from weft.model.status import ENDED
from weft.scheduling.core.state.job import JobState

MAX_REVISIONS: Final = 10
"""Earlier versions of a service that are kept."""
MOVE_WINDOW_S: Final = 60.0
"""Moves of replicas are limited within this time."""


class ServiceState:
    """A service, the number of replicas it is to have, and the replicas it has."""

    __slots__ = (
        "moved_at",
        "next_index",
        "replicas",
        "revisions",
        "rollout",
        "service",
        "undeployed",
        "wanted",
        "why",
    )

    def __init__(self, service: Service) -> None:
        self.service = service
        self.wanted = service.scale.min_replicas
        """The number of replicas that the service is to have."""
        self.revisions: tuple[Revision, ...] = ()
        """The earlier versions, oldest first."""
        self.rollout = Rollout()
        """The state of the present version."""
        self.why = ""
        """The reason of the last change of `wanted`."""
        self.undeployed = False
        self.replicas: dict[JobId, JobState] = {}
        """The replicas that have not ended, in the order of their submission."""
        self.next_index = 0
        """The index of the next replica. Indices are not used twice."""
        self.moved_at: tuple[Seconds, ...] = ()
        """The times of the moves of its replicas; moves more than a minute before the last one are forgotten."""

    def staying(self, *, unreachable: bool = False) -> list[JobState]:
        """Return the replicas that are neither drained nor cancelled: the others or the `unreachable` ones."""
        replicas = (replica for replica in self.replicas.values() if replica.unreachable is unreachable)
        return [each for each in replicas if each.draining_since is None and not each.cancelling]

    def is_current(self, replica: JobState) -> bool:
        """Return whether a replica runs the present version and is not to be replaced by another."""
        made_for = replica.job.replica
        if made_for is None or replica.leaving:
            return False
        return made_for.version == self.service.version or made_for.version in self.rollout.versions

    def has_failed(self) -> bool:
        """Return whether the present version failed to start so often that it counts as failed."""
        return self.rollout.ready_at is None and self.rollout.failed_starts >= self.service.update.tries

    def failing(self) -> str:
        """Return why the present version does not get ready, or why the last one was rolled back; empty: it works."""
        rollout = self.rollout
        if rollout.ready_at is not None or not rollout.failed_starts:
            return rollout.why
        times = "once" if rollout.failed_starts == 1 else f"{rollout.failed_starts} times"
        return f"version {self.service.version} failed to start {times}: {rollout.why}"

    def last_good(self) -> Revision | None:
        """Return the version to go back to: the last one that was ready once, was not rolled back and differs."""
        for revision in reversed(self.revisions):
            good = revision.rollout.ready_at is not None and not revision.rollout.rolled_back
            if good and revision.service.version not in self.rollout.versions:
                return revision
        return None

    def moved_since(self, at: Seconds) -> list[Seconds]:
        """Return the times of the moves after this time."""
        return [moved_at for moved_at in self.moved_at if moved_at > at]

    def ready(self) -> list[JobState]:
        """Return the replicas that get requests."""
        return [replica for replica in self.staying() if replica.ready_at is not None]


class Services:
    """All services by name, and the replicas that wait for GPUs."""

    def __init__(self) -> None:
        self.by_name: dict[str, ServiceState] = {}
        self.waiting: dict[JobId, JobState] = {}
        """Replicas that wait for GPUs. They come before all other jobs, so they are not among `State.waiting`."""
        self.unsettled = False
        """True if the replicas of a service may differ from what it is to have; the scheduler clears it."""
        self.revision = 0
        """Rises with every change of a service or of the replicas that answer requests."""

    def touch(self) -> None:
        """Mark that a service or a replica has changed."""
        self.unsettled = True
        self.revision += 1

    def reach(self, node: NodeId, *, unreachable: bool) -> None:
        """Mark the replicas of a node as unreachable, or as reachable again."""
        for service in self.by_name.values():
            for replica in service.replicas.values():
                if any(node == part for part, _ in replica.slots):
                    replica.unreachable = unreachable
        self.touch()

    def of(self, replica: JobState) -> ServiceState | None:
        """Return the service that a replica belongs to."""
        made_for = replica.job.replica
        return None if made_for is None else self.by_name.get(made_for.service)

    def health_of(self, job: JobState) -> Health | None:
        """Return the probes of a replica; None: the job is no replica."""
        service = self.of(job)
        return None if service is None else service.service.health

    def add(self, replica: JobState) -> None:
        """Add a replica that was submitted or restored."""
        service, made_for = self.of(replica), replica.job.replica
        if service is not None and made_for is not None and replica.status not in ENDED:
            service.replicas[replica.id] = replica
            service.next_index = max(service.next_index, made_for.index + 1)

    def remove(self, replica: JobState) -> None:
        """Remove a replica that has ended, and its service if that is undeployed and has no other."""
        service = self.of(replica)
        self.touch()
        if service is None:
            return
        service.replicas.pop(replica.id, None)
        if service.undeployed and not service.replicas:
            del self.by_name[service.service.name]
