"""Hooks in torch's DataLoader: when a batch is wanted and handed out, and how long its fetch takes."""

from __future__ import annotations

from weft.train.fetches import open_counters
from weft.train.hooks.loop import training_loop

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Any

    from weft.train.fetches import FetchCounters


def install() -> None:
    import torch
    from torch.utils.data import dataloader
    from torch.utils.data._utils import fetch

    counters = open_counters()
    for fetcher in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        _time_fetches(fetcher, counters, torch)
    _hook_batches(dataloader._BaseDataLoaderIter, counters, torch)


def _time_fetches(fetcher: Any, counters: FetchCounters, torch: Any) -> None:
    original = fetcher.fetch

    def fetch(self: Any, index: Any) -> Any:
        # a process that loads its own batches loads those of evaluations too, which are no part of a step
        return counters.time(original, self, index) if torch.is_grad_enabled() else original(self, index)

    fetcher.fetch = fetch


def _hook_batches(iterator: Any, counters: FetchCounters, torch: Any) -> None:
    original = iterator.__next__

    def next_batch(self: Any) -> Any:
        loop = training_loop() if torch.utils.data.get_worker_info() is None else None
        if loop is None:
            return original(self)
        loop.want_batch()
        try:
            batch = original(self)
        except BaseException:
            loop.end_batches()
            raise
        is_training = torch.is_grad_enabled()
        if is_training:
            workers = [worker.pid for worker in getattr(self, "_workers", ())]
            loop.recorder.get_batch(counters, workers)
        loop.get_batch(is_training=is_training)
        return batch

    iterator.__next__ = next_batch
