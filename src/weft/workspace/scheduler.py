"""Connects the commands of a workspace to a scheduler that has GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.access.endpoints.paths import user_paths
from weft.errors import Refused

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.access.server.settings import Settings
    from weft.workspace.config import Config

WORKSPACE: Final = "workspace"
"""The value of `gpus_declared_by` for GPUs that a workspace may add to."""


def connect_with_gpus(config: Config) -> Client:
    """Return a client of a scheduler that has GPUs; start the scheduler if necessary.

    If no GPUs are declared and there is no driver, declare the first `gpu_count`. If they were declared for a workspace
    with a smaller `gpu_count`, declare more; running jobs continue."""
    from weft.access.client import Client
    from weft.access.server.settings import load
    from weft.node.engine.gpu.this_machine import discover_this_machine
    from weft.workspace.locks import gpus_locked

    here = user_paths()
    here.make()
    with gpus_locked(here.runtime):
        settings = load(here.state)
        if not here.answers():
            found = discover_this_machine(settings.gpus, settings.models, settings.memories)[0].node.gpus
            if not found or _must_grow(config, settings):
                _declare_gpus(config, settings)
            return Client(here)
        client = Client(here)
        usable = len(client.gpus().gpus)
        if not usable or _must_grow(config, settings):
            settings = _declare_gpus(config, settings)
        if usable and (settings.gpus_declared_by != WORKSPACE or usable >= _count_declared(settings)):
            return client
        with client:
            _end_scheduler(client)
        client = Client(here)
        if client.gpus().gpus:
            return client
    client.close()
    count = config.whole("gpu_count")
    raise Refused(
        f"{count:,} {'GPU is' if count == 1 else 'GPUs are'} declared, "
        "but the scheduler cannot use them while jobs run\n"
        "  start again when the jobs have ended; weft queue shows them"
    )


def _end_scheduler(client: Client) -> None:
    """End the scheduler: the next one reads the new settings."""
    from weft.access.client.local_scheduler import end_scheduler

    end_scheduler(client)


def _declare_gpus(config: Config, settings: Settings) -> Settings:
    from weft.access.server.settings import changed, save

    gpus = ",".join(map(str, range(config.whole("gpu_count"))))
    new = changed(settings, gpus=gpus, models="", memories="", gpus_declared_by=WORKSPACE)
    save(user_paths().state, new)
    return new


def _must_grow(config: Config, settings: Settings) -> bool:
    """Return whether Weft declared the GPUs for a workspace with a smaller gpu_count."""
    return settings.gpus_declared_by == WORKSPACE and _count_declared(settings) < config.whole("gpu_count")


def _count_declared(settings: Settings) -> int:
    return len(settings.gpus.split(",")) if settings.gpus else 0


def connect_if_used() -> Client | None:
    """Return a client of the scheduler; None if there is no scheduler and there are no jobs."""
    here = user_paths()
    start = here.has_state()
    if not start and not here.answers():
        return None
    from weft.access.client.local_scheduler import find_scheduler

    return find_scheduler(here, start=start)
