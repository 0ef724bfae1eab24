"""The engine's reports and this machine as messages of the wire, and back."""

from __future__ import annotations

from weft.access.wire.convert import Pairs, get, variables
from weft.access.wire.messages import GpuSpec, NodeSpec, RunEnd, RunNews
from weft.node.engine.events import RunExited
from weft.node.engine.gpu.discovery import Machine


def run_end(report: RunExited) -> RunEnd:
    return RunEnd(
        code=report.code,
        signal=report.signal,
        why=report.why,
        detail=report.detail,
        done=report.done,
        started_at=report.started_at,
        ran_s=report.ran_s,
        cpu_s=report.cpu_s,
        max_rss_mb=report.max_rss_mb,
    )


def run_exited(news: RunNews, at: float) -> RunExited:
    """Return the exit of a run as an agent reported it at this time."""
    end = news.end
    return RunExited(
        at,
        news.job,
        news.run,
        code=get(end, "code"),
        signal=get(end, "signal"),
        why=end.why,
        detail=end.detail,
        done=end.done,
        started_at=end.started_at,
        ran_s=end.ran_s,
        cpu_s=end.cpu_s,
        max_rss_mb=end.max_rss_mb,
    )


def node_spec(machine: Machine, address: str, port: int, labels: Pairs = ()) -> NodeSpec:
    """Return a machine as its agent registers it.

    Other nodes reach it at `address`. Its gangs meet at a port from `port` on; 0: any port.
    """
    node = machine.node
    gpus = [
        GpuSpec(index=device.index, uuid=device.uuid, model=gpu.model, memory_mb=gpu.memory_mb)
        for gpu, device in zip(node.gpus, machine.devices, strict=True)
    ]
    return NodeSpec(
        id=node.id, gpus=gpus, cpus=node.cpus, ram_mb=node.ram_mb, switch=node.switch, address=address, port=port,
        labels=variables(labels),
    )  # fmt: skip
