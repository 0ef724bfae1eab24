"""The choice of a replica for a request.

`p2c`, power of two choices: of two replicas drawn at random, the one with fewer outstanding requests for its weight.
`round_robin`: one after the other; a replica of weight 2 comes twice as often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final, Literal, Protocol, TypeVar, get_args

BalanceRule = Literal["p2c", "round_robin"]
BALANCE_RULES: Final[tuple[BalanceRule, ...]] = get_args(BalanceRule)

Draw = Callable[[], float]
"""Returns a number from 0 up to 1, such as `random.random`."""


class Loaded(Protocol):
    """A replica as the rule sees it."""

    name: str
    outstanding: int
    turn: float
    weight: float


Replica = TypeVar("Replica", bound=Loaded)


def pick(replicas: Sequence[Replica], draw: Draw, *, weighted: bool = False) -> Replica:
    """Return one of the replicas, of which there is at least one. Equal loads keep the first draw.

    `weighted` says that weights may differ: the first draw is then proportional to them.
    """
    count = len(replicas)
    if count == 1:
        return replicas[0]
    at = _draw_by_weight(replicas, draw) if weighted else int(draw() * count)
    first = replicas[at]
    second = replicas[(at + 1 + int(draw() * (count - 1))) % count if count > 2 else 1 - at]
    return second if second.outstanding * first.weight < first.outstanding * second.weight else first


def pick_in_turn(replicas: Sequence[Replica], now: float) -> Replica:
    """Return the replica whose turn comes first; turns before `now` are equal, and the name decides among equals."""
    return min(replicas, key=lambda replica: (max(replica.turn, now), replica.turn, replica.name))


def _draw_by_weight(replicas: Sequence[Replica], draw: Draw) -> int:
    sums = list(accumulate(replica.weight for replica in replicas))
    wanted = draw() * sums[-1]
    return next((at for at, reached in enumerate(sums) if reached > wanted), len(sums) - 1)
