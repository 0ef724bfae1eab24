"""Cursors over waiting jobs, best first. They skip shapes that no longer fit."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heapreplace
from itertools import islice

from weft.scheduling.core.resources.shapes import Family, Shape
from weft.scheduling.core.state.job import JobState

Entry = tuple[float, int, JobState]
"""(key, tie-breaker, job); the best sorts first."""
NEVER = 1 << 60
MAX_GONE = 500
"""The most entries of started jobs that a list keeps before it drops them."""


class Cursor:
    """A cursor over jobs, best first. A shape that fails drops all larger shapes of its family.

    Shapes larger than any node count separately: they are split, and the parts may fit where a smaller shape does not.
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
        """Return whether a shape of its family, no larger than it, has failed."""
        if 0 < shape.gpus <= self._largest:
            return shape.gpus >= self._failed.get(shape.family, NEVER)
        return shape.gpus >= self._failed_split.get(shape.family, NEVER)


class WaitingList:
    """Waiting jobs of one shape, best first. Adding at the end and removing at the head are cheap."""

    __slots__ = ("entries", "head")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        """Ascending; the entries before `head` are removed."""
        self.head = 0

    def __len__(self) -> int:
        return len(self.entries) - self.head

    def __iter__(self) -> Iterator[Entry]:
        return islice(self.entries, self.head, None)

    def add(self, entry: Entry) -> bool:
        """Add an entry; return whether it is now the best."""
        entries = self.entries
        if not entries or entries[-1] < entry:
            entries.append(entry)
        else:
            insort(entries, entry, self.head)
        return entries[self.head] is entry

    def add_all(self, fresh: list[Entry]) -> None:
        self.entries = sorted([*self, *fresh])
        self.head = 0

    def remove(self, entry: Entry) -> None:
        entries, head = self.entries, self.head
        if entries[head] is not entry:
            del entries[bisect_left(entries, entry, head)]
            return
        head += 1
        if head == len(entries) or head > MAX_GONE:
            del entries[:head]
            head = 0
        self.head = head


class QueueCursor(Cursor):
    """A cursor over the lists of waiting jobs. A job may leave its list, or stay, once the cursor has passed it."""

    def __init__(self, lists: Iterable[WaitingList], largest_node: int) -> None:
        super().__init__(largest_node)
        self._heap = [(queue.entries[queue.head], queue, 0) for queue in lists if queue.entries]
        heapify(self._heap)

    def __iter__(self) -> Iterator[Entry]:
        heap, largest, failed, failed_split = self._heap, self._largest, self._failed, self._failed_split
        while heap:
            entry, queue, skip = heap[0]
            shape = entry[2].shape
            gpus = shape.gpus
            if gpus >= (failed if 0 < gpus <= largest else failed_split).get(shape.family, NEVER):  # as `dropped`
                heappop(heap)
                continue
            size = len(queue.entries) - queue.head
            yield entry
            entries, at = queue.entries, queue.head + skip
            if len(entries) - queue.head == size:
                skip += 1
                at += 1
            if at < len(entries):
                heapreplace(heap, (entries[at], queue, skip))
            else:
                heappop(heap)


class StreamCursor(Cursor):
    """A cursor over several sorted streams at once."""

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
