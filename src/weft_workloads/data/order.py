"""The order of samples: the same for every number of runs, so that a job continues where it stopped."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch.utils.data import Sampler

Key = tuple[int, int]
"""Epoch and index of a sample: the epoch seeds its crop, mask or offset."""


class StepBatches(Sampler[list[Key]]):
    """The samples of one rank, step by step: a shuffled pass over the data per epoch, from any step onwards."""

    def __init__(self, samples: int, batch_size: int, *, rank: int, world: int, seed: int) -> None:
        self.samples, self.batch_size, self.rank, self.world, self.seed = samples, batch_size, rank, world, seed
        self.first_step = self.last_step = 0

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of all ranks in the data; at least one, which then holds samples twice."""
        return max(self.samples // (self.batch_size * self.world), 1)

    def __len__(self) -> int:
        return self.last_step - self.first_step

    def __iter__(self) -> Iterator[list[Key]]:
        order, ordered_epoch = np.empty(0, dtype=np.int64), -1
        for step in range(self.first_step, self.last_step):
            epoch, at = divmod(step, self.steps_per_epoch)
            if epoch != ordered_epoch:
                order = np.random.default_rng([self.seed, epoch]).permutation(self.samples)
                ordered_epoch = epoch
            begin = (at * self.world + self.rank) * self.batch_size
            yield [(epoch, int(order[place % self.samples])) for place in range(begin, begin + self.batch_size)]
