"""Answers about services, for `weft deploy` and `weft services`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from weft.views.answers.base import Answer, View
from weft.views.answers.jobs import QueryAnswer


class ReplicaView(View):
    """One replica of a service."""

    job: str = ""
    index: int = 0
    version: int = 1
    status: str = ""
    """ready, starting, waiting, draining or unreachable."""
    current: bool = True
    """False: it is to be replaced, as one of an earlier version is."""
    address: str = ""
    gpus: str = ""
    since: str | None = None


class RevisionView(View):
    """One version of a service."""

    version: int = 1
    deployed: str | None = None
    who: str = ""
    """The user who deployed it; empty: the scheduler did, as a rollback."""
    summary: str = ""
    """Its image and command."""
    outcome: str = ""
    """live, starting, failed, replaced, rolled back or never ready."""
    why: str = ""
    """Why it does not start, or why the version before was rolled back."""


class ServiceView(View):
    """A service, its replicas and its load."""

    PARTS: ClassVar[Mapping[str, type[View]]] = {"replicas": ReplicaView, "history": RevisionView}

    name: str = ""
    user: str = ""
    version: int = 1
    url: str = ""
    wanted: int = 0
    """Replicas that the autoscaler wants."""
    why: str = ""
    """Why it wants as many."""
    ready: int = 0
    min_replicas: int = 1
    max_replicas: int = 1
    scaler: str = ""
    rate: float = 0.0
    """Requests per second in the last second."""
    in_flight: float = 0.0
    queued: int = 0
    capacity: float = 0.0
    """Requests per second of a replica, as declared or learned."""
    slo_s: float | None = None
    waiting_for: str = ""
    """Why replicas wait for GPUs; empty: none waits."""
    held_by: str = ""
    """The runs that hold the GPUs for which they wait."""
    pools: Sequence[str] = ()
    """The present work of the pools that could run the first waiting replica."""
    failing: str = ""
    """Why the present version does not get ready, or why the last one was rolled back; empty: it works."""
    failed: bool = False
    """The present version failed to start so often that its requests are refused."""
    watched: bool = False
    """Requests come, and the error gate waits for answers of the present version."""
    models: Sequence[str] = ()
    """The models by which OpenAI requests select it."""
    history: Sequence[RevisionView] = ()
    """Its versions, the newest first; only in the answer about one service."""
    replicas: Sequence[ReplicaView] = ()


class ServicesView(QueryAnswer):
    PARTS: ClassVar[Mapping[str, type[View]]] = {"services": ServiceView}

    services: Sequence[ServiceView] = ()


class DeployedView(Answer):
    """The outcome of a deployment or of a change."""

    service: str = ""
    version: int = 1
    outcome: str = ""
    """deployed, updated, changed, unchanged, scaled, rolled back or undeployed."""
    url: str = ""
