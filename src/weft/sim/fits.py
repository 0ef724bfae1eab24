"""Which jobs of a trace a cluster can ever hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from weft.core.floor import Floor
from weft.core.scratch import node_for_cpus, pinned_slots
from weft.core.shapes import Shape, shape_of
from weft.model import Job, Node
from weft.sim.trace import TraceJob


def split_feasible(
    jobs: Iterable[TraceJob], nodes: Sequence[Node]
) -> tuple[list[TraceJob], list[tuple[TraceJob, str]]]:
    """The jobs that the whole cluster, empty, could hold; and the others, each with the reason why not."""
    cluster = _Cluster(nodes)
    feasible: list[TraceJob] = []
    infeasible: list[tuple[TraceJob, str]] = []
    for each in jobs:
        reason = cluster.why_not(each.job)
        if reason:
            infeasible.append((each, reason))
        else:
            feasible.append(each)
    return feasible, infeasible


class _Cluster:
    """GPU memories, largest first, of each GPU model, and the nodes; equal requests are answered once."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        gpus = [gpu for node in nodes for gpu in node.gpus]
        self._of_model = {"": sorted((gpu.memory_mb for gpu in gpus), reverse=True)}
        for model in {gpu.model for gpu in gpus} - {""}:
            self._of_model[model] = sorted((gpu.memory_mb for gpu in gpus if gpu.model == model), reverse=True)
        self._answers: dict[Shape, str] = {}
        self._floor = Floor()
        for node in nodes:
            self._floor.join(node)

    def why_not(self, job: Job) -> str:
        """Empty where it fits."""
        request = shape_of(job)
        if request not in self._answers:
            gpus = self._judge(job.gpus, job.where.gpu_model, job.memory_mb)
            self._answers[request] = gpus or self._judge_hosts(request)
        return self._answers[request]

    def _judge_hosts(self, shape: Shape) -> str:
        """The GPUs it is pinned to; the CPUs, RAM and labels of the nodes that have the GPUs."""
        family = shape.family
        if family.where.pinned and pinned_slots(self._floor, shape) is None:
            pinned = ", ".join(f"{node}[{','.join(map(str, gpus))}]" for node, gpus in family.where.pinned)
            return f"is pinned to {pinned}; the cluster cannot give it these"
        if not (family.cpus or family.ram_mb or family.where.labels):
            return ""
        if not shape.gpus:
            return "" if node_for_cpus(self._floor, shape) else "needs more CPUs or RAM than any node has"
        could = self._floor.free_for(shape, soon=False).total()
        if could >= shape.gpus:
            return ""
        wants = [f"{family.cpus} CPUs" * bool(family.cpus), f"{family.ram_mb:,} MB of RAM" * bool(family.ram_mb)]
        wants += [f"{key}={value}" for key, value in family.where.labels]
        each = " and ".join(filter(None, wants))
        return f"needs {_gpus(shape.gpus)} with {each} each; the cluster can give {could:,}"

    def _judge(self, gpus: int, model: str, memory_mb: int | tuple[int, ...]) -> str:
        have = self._of_model.get(model, [])
        kind = f" of model {model}" if model else ""
        if gpus > len(have):
            return f"needs {_gpus(gpus)}{kind}; the cluster has {len(have):,}"
        needs = sorted(memory_mb, reverse=True) if isinstance(memory_mb, tuple) else [memory_mb] * gpus
        for rank, (need, largest) in enumerate(zip(needs, islice(have, gpus), strict=False)):
            if need > largest:
                wanted = sum(other >= need for other in needs)
                return f"needs {_gpus(wanted)}{kind} with {need:,} MB; the cluster has {rank:,}"
        return ""


def _gpus(count: int) -> str:
    return f"{count:,} GPU{'' if count == 1 else 's'}"
