"""Decide whether to accept an agent's Hello, or why to refuse it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from weft.access.wire.convert import node_of
from weft.access.wire.messages import Hello, RunNews
from weft.access.wire.protocol import PROTOCOL
from weft.scheduling.core.state.job import JobState
from weft.server.nodes.registered_node import RegisteredNode, same_gpus

MAX_VERSION_CHARS: Final = 40
Refusal = tuple[str, str]
"""The name of a gRPC status, and a message that says what to do."""


def check_protocol(hello: Hello, version: str, cluster: str) -> Refusal | None:
    """Refuse another protocol, and an agent that still has runs of another cluster."""
    if hello.protocol != PROTOCOL:
        theirs = hello.version[:MAX_VERSION_CHARS] or "unknown"
        return "FAILED_PRECONDITION", (
            f"the agent speaks protocol {hello.protocol} (Weft {theirs}), this scheduler "
            f"{PROTOCOL} (Weft {version or 'unknown'}): bring both to the same version"
        )
    if hello.cluster not in ("", cluster) and hello.runs:
        return "FAILED_PRECONDITION", (
            f"{len(hello.runs)} runs of another scheduler are on {hello.node.id}: connect it to that one until they "
            "have ended, or give this worker another --id"
        )
    return None


def check_name(hello: Hello, member: RegisteredNode) -> Refusal | None:
    """Refuse a second agent with the name of a connected one."""
    if not member.connected or (member.instance, member.node.disk_id) == (hello.instance, hello.disk_id):
        return None
    return "ALREADY_EXISTS", f"a worker called {member.id} is connected: stop it, or give this one another --id"


def check_runs_alive(
    hello: Hello, member: RegisteredNode, living: Collection[JobState], left_s: float
) -> Refusal | None:
    """Refuse a changed node while runs may be alive on the node of this name."""
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


def runs_alive(hello: Hello, member: RegisteredNode, jobs: Collection[JobState]) -> list[JobState]:
    """Return the jobs whose runs may still have processes on the node. An agent on another disk cannot know."""
    if member.node.disk_id != hello.disk_id:
        return list(jobs)
    ended = {(run.job, run.run) for run in hello.runs if run.phase == RunNews.ENDED}
    return [job for job in jobs if (job.id, job.run) not in ended]


def has_changed(hello: Hello, member: RegisteredNode) -> bool:
    """Return whether the node differs from the registered one in any way."""
    node = node_of(hello.node, hello.disk_id)
    return replace(member.node, until=None) != node or not same_gpus(member, node, hello.node)
