"""Cursors over waiting jobs, best first, that skip the shapes that cannot fit any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heapreplace

from weft.core.resources.shapes import Family, Shape
from weft.core.state.job import JobState

Entry = tuple[float, int, JobState]
"""(-key, -tie-breaker, job): ascending, so that the best is last and cheap to remove."""
NEVER = 1 << 60


class Cursor:
    """Jobs best first; a shape that fails drops all larger ones of its family.

    Shapes larger than any node are apart: they are split, and two halves may fit where a whole does not.
    """

    def __init__(self, largest_node: int) -> None:
        self._largest = largest_node
        self._failed: dict[Family, int] = {}
        self._failed_split: dict[Family, int] = {}

    def fail(self, shape: Shape) -> None:
        if shape.gpus:
            failed = self._failed if shape.gpus <= self._largest else self._failed_split
            failed[shape.family] = shape.gpus
        else:
            self._failed_split[shape.family] = 0

    def dropped(self, shape: Shape) -> bool:
        """Whether a smaller one of its family has failed."""
        if 0 < shape.gpus <= self._largest:
            return shape.gpus >= self._failed.get(shape.family, NEVER)
        return shape.gpus >= self._failed_split.get(shape.family, NEVER)


class QueueCursor(Cursor):
    """Iterates over the lists of waiting jobs, whether or not each job leaves its list once seen."""

    def __init__(self, lists: Iterable[list[Entry]], largest_node: int) -> None:
        super().__init__(largest_node)
        best = [(entries[-1], entries) for entries in lists if entries]
        self._heap = [(-key, -tie, job, entries, 1) for (key, tie, job), entries in best]
        heapify(self._heap)

    def __iter__(self) -> Iterator[tuple[float, int, JobState]]:
        heap, largest, failed, failed_split = self._heap, self._largest, self._failed, self._failed_split
        while heap:
            key, tie, job, entries, skip = heap[0]
            shape = job.shape
            gpus = shape.gpus
            if gpus >= (failed if 0 < gpus <= largest else failed_split).get(shape.family, NEVER):  # as `dropped`
                heappop(heap)
                continue
            size = len(entries)
            yield key, tie, job
            if len(entries) == size:
                skip += 1
            if len(entries) >= skip:
                entry = entries[-skip]
                heapreplace(heap, (-entry[0], -entry[1], entry[2], entries, skip))
            else:
                heappop(heap)


class StreamCursor(Cursor):
    """Iterates over several sorted streams at once."""

    def __init__(self, streams: Iterable[Iterator[tuple[float, int, JobState]]], largest_node: int) -> None:
        super().__init__(largest_node)
        self._heap = [(*first, stream) for stream in streams if (first := next(stream, None)) is not None]
        heapify(self._heap)

    def __iter__(self) -> Iterator[tuple[float, int, JobState]]:
        heap = self._heap
        while heap:
            key, tie, job, stream = heap[0]
            if self.dropped(job.shape):
                heappop(heap)
                continue
            yield key, tie, job
            following = next(stream, None)
            if following is None:
                heappop(heap)
            else:
                heapreplace(heap, (*following, stream))
