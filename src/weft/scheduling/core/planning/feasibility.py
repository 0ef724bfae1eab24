"""Feasibility: whether a cluster can ever hold a job, and if not, why."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from weft.model import Job, Node, PerRank
from weft.model.slots import Message
from weft.scheduling.core.planning.tentative import node_for_cpus, pinned_slots, slots_of
from weft.scheduling.core.ports import Placement
from weft.scheduling.core.resources.cluster import ClusterResources
from weft.scheduling.core.resources.shapes import Shape, shape_of


class Feasible:
    """The feasibility of jobs on the whole cluster, empty, with the given placements; equal needs are judged once."""

    def __init__(self, nodes: Sequence[Node], placements: Sequence[Placement] = ()) -> None:
        gpus = [gpu for node in nodes for gpu in node.gpus]
        self._of_model = {"": sorted((gpu.memory_mb for gpu in gpus), reverse=True)}
        """GPU memories of each model, largest first."""
        for model in {gpu.model for gpu in gpus} - {""}:
            self._of_model[model] = sorted((gpu.memory_mb for gpu in gpus if gpu.model == model), reverse=True)
        self._placements = placements
        self._answers: dict[Shape, Message] = {}
        self._floor = ClusterResources()
        for node in nodes:
            self._floor.join(node)

    def why_not(self, job: Job) -> Message:
        """Return why the cluster can never hold the job; empty where it can."""
        shape = shape_of(job)
        if shape not in self._answers:
            total = self._judge_gpus(job.gpus, job.where.gpu_model, job.memory_mb) or self._judge_hosts(shape)
            self._answers[shape] = (total,) if total else self._judge_seats(shape)
        return self._answers[shape]

    def _judge_gpus(self, gpus: int, model: str, memory_mb: PerRank) -> str:
        have = self._of_model.get(model, [])
        kind = f" of model {model}" if model else ""
        if gpus > len(have):
            return f"needs {_gpus(gpus)}{kind}; the cluster has {len(have):,}"
        needs = sorted(memory_mb.each(gpus), reverse=True)
        for rank, (need, largest) in enumerate(zip(needs, islice(have, gpus), strict=False)):
            if need > largest:
                wanted = sum(other >= need for other in needs)
                found = f"the cluster has {rank:,}" if rank else f"the largest of the cluster has {largest:,} MB"
                return f"needs {_gpus(wanted)}{kind} with {need:,} MB; {found}"
        return ""

    def _judge_hosts(self, shape: Shape) -> str:
        """Check the CPUs, RAM and labels of the nodes that have the GPUs."""
        family = shape.family
        if not (family.cpus or family.ram_mb or family.where.labels):
            return ""
        if not shape.gpus:
            return "" if node_for_cpus(self._floor, shape) else self._judge_cpus(shape)
        could = self._floor.free_for(shape, after_release=False).total()
        if could >= shape.gpus:
            return ""
        wants = [f"{family.cpus} CPUs" * bool(family.cpus), f"{family.ram_mb:,} MB of RAM" * bool(family.ram_mb)]
        wants += [f"{key}={value}" for key, value in family.where.labels]
        each = " and ".join(filter(None, wants))
        return f"needs {_gpus(shape.gpus)} with {each} each; the cluster can give {could:,}"

    def _judge_cpus(self, shape: Shape) -> str:
        """Return which need of a job without GPUs no node meets."""
        family, nodes = shape.family, [host.node for host in self._floor.nodes]
        if family.where.labels:
            nodes = [node for node in nodes if set(family.where.labels) <= set(node.labels)]
        for need, unit, most in (
            (family.cpus, "CPUs", max((node.cpus for node in nodes), default=0)),
            (family.ram_mb, "MB of RAM", max((node.ram_mb for node in nodes), default=0)),
        ):
            if most and need > most:
                return f"needs {need:,} {unit}; the largest node has {most:,}"
        return "needs CPUs and RAM that no node has together"

    def _judge_seats(self, shape: Shape) -> Message:
        """Check that a placement can seat the job: enough GPUs in total may still be too few on each node."""
        if not shape.gpus:
            return ()
        if shape.family.where.pinned:
            if pinned_slots(self._floor, shape):
                return ()
            return ("is pinned to ", shape.family.where.pinned, "; the cluster cannot give it these")
        for placement in self._placements:
            parts = placement.place(shape, self._floor.free_for(shape, after_release=False))
            if parts is None or slots_of(self._floor, shape, parts, placement) is None:
                name = type(placement).__name__
                return (f"needs {_gpus(shape.gpus)}, which placement {name} cannot seat even on the empty cluster",)
        return ()


def _gpus(count: int) -> str:
    return f"{count:,} GPU{'' if count == 1 else 's'}"
