"""The order of the jobs of one request: each follows the jobs that it depends on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from weft.server.process.slices import Steps


class Sorted(NamedTuple):
    """The jobs in order, or the jobs of a cycle: from its first one on, each after the next, and the first again."""

    order: Sequence[int]
    cycle: Sequence[int] = ()


def sort_by_dependencies(after: Mapping[int, Collection[int]], count: int) -> Steps[Sorted]:
    """Sort the jobs 0 to `count` - 1, of which some come after others. They keep their order if that is possible."""
    if all(other < at for at, others in after.items() for other in others):
        return Sorted(range(count))
    missing = {at: len(others) for at, others in after.items() if others}
    followers: dict[int, list[int]] = {}
    for at, others in after.items():
        for other in others:
            followers.setdefault(other, []).append(at)
        yield
    order = [at for at in range(count) if at not in missing]
    for at in order:  # it grows meanwhile
        for follower in followers.get(at, ()):
            missing[follower] -= 1
            if not missing[follower]:
                del missing[follower]
                order.append(follower)
        yield
    if not missing:
        return Sorted(order)
    return Sorted((), (yield from _cycle(after, missing)))


def _cycle(after: Mapping[int, Collection[int]], left: Collection[int]) -> Steps[list[int]]:
    """Return a cycle among the jobs that could not be sorted: each of them comes after another of them."""
    path: dict[int, None] = {}
    at = min(left)
    while at not in path:
        path[at] = None
        at = min(other for other in after[at] if other in left)
        yield
    walked = list(path)
    cycle = walked[walked.index(at) :]
    first = cycle.index(min(cycle))
    return [*cycle[first:], *cycle[: first + 1]]
