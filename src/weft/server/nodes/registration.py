"""Whether an agent is taken that says Hello, and what it is told if not."""

from __future__ import annotations

from collections.abc import Collection

from weft.core.state.job import JobState
from weft.server.nodes.registered_node import RegisteredNode, node_of, same_gpus
from weft.wire.messages import Hello, RunNews
from weft.wire.protocol import PROTOCOL

Refusal = tuple[str, str]
"""The name of a gRPC status, and what to do."""


def not_understood(hello: Hello, version: str, cluster: str) -> Refusal | None:
    """What can be told without looking at the nodes."""
    if hello.protocol != PROTOCOL:
        return "FAILED_PRECONDITION", (
            f"the agent speaks protocol {hello.protocol} (Weft {hello.version or 'unknown'}), this scheduler "
            f"{PROTOCOL} (Weft {version or 'unknown'}): bring both to the same version"
        )
    if hello.cluster not in ("", cluster) and hello.runs:
        return "FAILED_PRECONDITION", (
            f"{len(hello.runs)} runs of another scheduler are on {hello.node.id}: let it work for that one until they "
            "have ended, or give this worker another --id"
        )
    return None


def name_taken(hello: Hello, member: RegisteredNode) -> Refusal | None:
    if not member.connected or (member.instance, member.node.disk_id) == (hello.instance, hello.disk_id):
        return None
    return "ALREADY_EXISTS", f"a worker called {member.id} is connected: stop it, or give this one another --id"


def in_the_way(hello: Hello, member: RegisteredNode, living: Collection[JobState], left_s: float) -> Refusal | None:
    """While runs may be alive on the node of this name, only the same node is taken."""
    if not living:
        return None
    if member.node.disk_id != hello.disk_id:
        return "ALREADY_EXISTS", (
            f"a worker called {member.id} on another machine or disk has {len(living)} runs, and may come back for "
            f"{max(left_s, 0):.0f} s more: wait, or give this one another --id"
        )
    if not same_gpus(member, node_of(hello.node, hello.disk_id), hello.node):
        return "FAILED_PRECONDITION", (
            f"{member.id} has other GPUs than before, and {len(living)} runs on them: give it the same GPUs, or wait "
            "until these have ended"
        )
    return None


def still_there(hello: Hello, member: RegisteredNode, jobs: Collection[JobState]) -> list[JobState]:
    """Those of a node's runs that may have processes, by all that is known. Another disk knows nothing of them."""
    if member.node.disk_id != hello.disk_id:
        return list(jobs)
    ended = {(run.job, run.run) for run in hello.runs if run.phase == RunNews.ENDED}
    return [job for job in jobs if (job.id, job.run) not in ended]


def is_other(hello: Hello, member: RegisteredNode) -> bool:
    """Whether the node is not what it was, in anything."""
    node = node_of(hello.node, hello.disk_id)
    return member.node != node or not same_gpus(member, node, hello.node)
