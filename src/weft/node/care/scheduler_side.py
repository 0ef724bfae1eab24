"""The scheduler's side of a node: its clock, and whether it starts jobs there."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from weft.access.client import Client
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.paths import user_paths
from weft.errors import WeftError
from weft.model.status import Reason
from weft.node.care.runs_here import AgentFolder


def clock_offset(client: Client) -> tuple[float, float]:
    """Return how far this clock is ahead of the scheduler's, and the uncertainty, in seconds."""
    before = time.time()
    scheduler_now = client.nodes().now
    after = time.time()
    if scheduler_now is None:
        return 0.0, 0.0
    return (before + after) / 2 - datetime.fromisoformat(scheduler_now).timestamp(), (after - before) / 2


def blockers(scheduler: Address | None) -> Callable[[AgentFolder], str]:
    """Return a function that says why jobs may start on an agent. `scheduler` is the one of the workers here."""

    def reason(agent: AgentFolder) -> str:
        if agent.worker and scheduler is None:
            return f"worker {agent.worker} runs here, and its scheduler is not known: give --scheduler HOST:PORT"
        try:
            with Client(scheduler if agent.worker else user_paths(), start=False) as client:
                return _reason(client, agent.worker)
        except WeftError as error:
            who, why = f"worker {agent.worker}" if agent.worker else "the scheduler", str(error).partition("\n")[0]
            return f"{who} runs here, and it is not known whether it is drained: {why}"

    return reason


def _reason(client: Client, worker: str) -> str:
    nodes = [node for node in client.nodes().nodes if worker in ("", node.node)]
    if not nodes:
        return f"worker {worker} runs here, and the scheduler has no node of that name"
    if any(node.jobs for node in nodes):
        return f"{nodes[0].node} has jobs"
    names = {node.node for node in nodes}
    for gpu in client.gpus().gpus:
        if gpu.node in names and not any(block.reason == Reason.DRAINED for block in gpu.blocked):
            return f"GPU {gpu.gpu} of {gpu.node} is not drained"
    return ""
