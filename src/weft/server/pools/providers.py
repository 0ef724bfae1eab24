"""The providers by name. Each is imported when a pool needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from weft.errors import UnknownName
from weft.model.pool import Pool
from weft.server.pools.provider import Provider, Site

TITLES: Final = {"slurm": "Slurm", "ray": "Ray", "kubernetes": "Kubernetes"}
COMMON: Final = ("folder", "setup", "weft")
"""Settings of all pools: their folder, lines of the shell before the worker, and the command that starts Weft there."""
SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "slurm": COMMON,
    "ray": (*COMMON, "url", "token-file"),
    "kubernetes": (*COMMON, "context", "namespace", "image", "queue-name", "volume"),
}


def open_provider(pool: Pool, site: Site) -> Provider:
    """Return the provider of a pool."""
    if pool.provider == "slurm":
        from weft.server.pools.slurm import Slurm

        return Slurm(site)
    if pool.provider == "ray":
        from weft.server.pools.ray_jobs import RayJobs

        return RayJobs(site, pool)
    if pool.provider == "kubernetes":
        from weft.server.pools.kubernetes import Kubernetes

        return Kubernetes(site, pool)
    raise UnknownName("provider", pool.provider, TITLES)
