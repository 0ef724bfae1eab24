"""The behaviour of the jobs of a world: how long each run takes and how it ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from clusters.mayhem import Mayhem
from weft.access.wire.messages import StageCounters
from weft.model import Job, JobId, Profile, Share

CODES = (0, 0, 0, 0, 0, 1, 1, 3, 85)
"""85: it asks to be run again."""


@dataclass(frozen=True, slots=True)
class Fate:
    """The behaviour of one run once all its parts have started."""

    lasts_s: float
    code: int
    culprit: int
    """Which part ends with the code, if it is not 0; the others then hang until they are stopped."""
    stragglers_s: float
    """By how much parts end apart from each other, if it is 0."""


@dataclass(slots=True)
class Work:
    seed: int
    jobs: dict[JobId, Job] = field(default_factory=dict)
    lasts_s: dict[JobId, float] = field(default_factory=dict)
    hanging: set[JobId] = field(default_factory=set)

    def invent(self, chance: Random, mayhem: Mayhem) -> None:
        most = sum(mayhem.nodes)
        for at in range(1, mayhem.jobs + 1):
            gpus = min(chance.choice(mayhem.sizes), most)
            lasts_s = chance.uniform(1, mayhem.longest_s)
            name = str(at)
            self.lasts_s[name] = lasts_s
            self.jobs[name] = Job(
                name, gpus, retries=chance.randint(0, 2), declared_s=lasts_s, priority=chance.randint(0, 3),
                cpus=0 if gpus else 1, command=("mpirun",) if chance.random() < 0.1 else ("train",),
            )  # fmt: skip

    def weave(self) -> None:
        """Every job has stages, so that it can be woven with others. One in four holds its turns too long."""
        chance = Random(f"{self.seed}/stages")
        for name, job in self.jobs.items():
            data_s, gpu_s, net_s = (round(chance.uniform(0.05, 1), 2) for _ in range(3))
            stages = Profile(f"m{name}", data_s + gpu_s + net_s, data_s, gpu_s, net_s)
            self.jobs[name] = replace(job, profile=stages)
            if chance.random() < 0.25:
                self.hanging.add(name)

    def share(self) -> None:
        """Most jobs take a part of each of their GPUs, so that replicas run next to them."""
        chance = Random(f"{self.seed}/shares")
        for name, job in self.jobs.items():
            part = chance.choice((0.4, 0.5, 0.6, 1.0))
            self.jobs[name] = replace(job, share=Share(part, part)) if job.gpus else job

    def turns(self, job: JobId, now: float) -> StageCounters:
        """Return the counters of its turns in its weave by then."""
        grants, over = max(int(now * 2), 0), max(int(now / 2), 0) if job in self.hanging else 0
        return StageCounters(
            stage="gpu", grants=grants, served_s=0.3 * grants, waited_s=0.1 * grants, passed_over=over
        )  # fmt: skip

    def fate(self, job: JobId, run: int, parts: int) -> Fate:
        """The same whenever it is asked for."""
        chance = Random(f"{self.seed}/{job}/{run}")
        if job not in self.lasts_s:  # a replica serves until it is stopped, or fails
            return Fate(chance.choice((50.0, 1e6, 1e6)), 1, 0, 0.0)
        code = chance.choice(CODES) if run < 12 else 0  # it has to end some time
        return Fate(self.lasts_s[job] * chance.uniform(0.2, 1), code, chance.randrange(parts), chance.uniform(0, 3))
