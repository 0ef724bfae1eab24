"""A Weft cluster whose nodes come from a Slurm of the test's own."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from support.peers.slurm_cluster import GPUS, Slurm, slurm
from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until
from weft.model import AllocationRequested, NodeJoined, Started
from weft.model.slots import parse_slots


@dataclass
class PoolSite:
    weft: Cluster
    slurm: Slurm

    def add(self, name: str, *flags: str, options: tuple[str, ...] = (), time: str = "30m", most: int = 4) -> None:
        shape = ("--gpus-per-node", str(GPUS), "--model", "V100", "--memory", "16G", "--time", time)
        self.weft.weft("pool", "add", name, "--slurm", *shape, "--max-nodes", str(most), *flags, "--", *options)

    def pool(self, name: str) -> dict[str, Any]:
        return self.json("pool", "show", name)

    def json(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.weft.weft(*words, "--json"))
        return found

    def nodes_of(self, job: str) -> set[str]:
        return {node for node, _ in parse_slots(self.weft.until_status(job, "running")["place"])}

    def id_of(self, name: str, node: str) -> str:
        """Return Slurm's id of the allocation of a node."""
        return str(next(each["id"] for each in self.pool(name)["allocations"] if each["node"] == node))

    def until_gone(self, name: str) -> None:
        """Wait until the pool has given everything back."""
        until(lambda: not self.pool(name)["allocations"] and not self.slurm.jobs() and not self.weft.connected())

    def remove(self, name: str) -> None:
        self.weft.weft("cancel", "--all", "-y", code=None)
        self.weft.weft("pool", "remove", name, "--now")
        until(lambda: not self.json("pool", "list")["pools"] and not self.slurm.jobs())

    def joined_after_s(self) -> list[float]:
        """Return the seconds from each request to its node."""
        asked: dict[str, float] = {}
        found = []
        for fact in self.weft.facts():
            if isinstance(fact, AllocationRequested):
                asked[fact.slot] = fact.at
            elif isinstance(fact, NodeJoined) and fact.node.id in asked:
                found.append(fact.at - asked.pop(fact.node.id))
        return found

    def started_at(self, job: str, run: int) -> float:
        return next(f.at for f in self.weft.facts() if isinstance(f, Started) and (f.job, f.run) == (job, run))


@contextlib.contextmanager
def pool_site(*, kill_wait: int = 30, path: str = "") -> Iterator[PoolSite]:
    """Start both. `path` comes before the programs of Slurm."""
    with slurm(kill_wait=kill_wait) as below:
        env = {"SLURM_CONF": below.env["SLURM_CONF"]} | ({"PATH": f"{path}:{below.env['PATH']}"} if path else {})
        with cluster(env=env) as made:
            yield PoolSite(made, below)
