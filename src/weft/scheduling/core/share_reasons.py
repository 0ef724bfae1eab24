"""Words for what GPUs lack when a job wants a share of them."""

from __future__ import annotations

from collections.abc import Iterator

from weft.model import Share
from weft.scheduling.core.resources.cluster import ClusterResources
from weft.scheduling.core.resources.node import SHARE_TOLERANCE, NodeResources, Occupant
from weft.scheduling.core.resources.shapes import Shape


def format_share(share: Share) -> str:
    """Format a share as `weft submit --share` takes it."""
    return f"{share.request:g}/{share.limit:g}"


def explain_room(resources: ClusterResources, shape: Shape) -> str:
    """Return what the GPU lacks that comes closest to holding a share; empty: no GPU comes into question."""
    where = shape.family.where
    found = [
        (len(lacks), host.load(index).limit, "; ".join(lacks))
        for host in resources.nodes
        if host.alive and not host.closures and set(where.labels) <= set(host.node.labels)
        for index, gpu in enumerate(host.node.gpus)
        if where.gpu_model in ("", gpu.model) and not any(isinstance(each, Occupant) for each in host.holders[index])
        if (lacks := list(_lacks(host, index, shape)))
    ]
    return min(found)[-1] if found else ""


def _lacks(host: NodeResources, gpu: int, shape: Shape) -> Iterator[str]:
    share, load = shape.family.share, host.load(gpu)
    most = host.largest_limit(serves=load.serves or shape.family.serves)
    for what, total, cap in (
        ("requests", load.request + share.request, 1.0), ("limits", load.limit + share.limit, most)
    ):  # fmt: skip
        if total > cap + SHARE_TOLERANCE:
            yield f"the {what} on a GPU of {host.node.id} would add up to {total:.3g}, more than {cap:g}"
    free_mb = host.node.gpus[gpu].memory_mb - load.memory_mb
    if free_mb < shape.memory_mb.min:
        yield f"a GPU of {host.node.id} has {free_mb:,} MB free"
