"""Prices of work: what a solo second of each profile costs in GPU-seconds, if GPUs are used as well as weaves allow.

For the jobs of one GPU count, prices p are *valid* if no weave does more than one GPU-second's worth of work a second:
the sum of p times rate over its members is at most 1. Whatever weaves a policy chooses, a job with w solo seconds of
work then costs at least p w GPU-seconds. Among the valid prices, those that make a given amount of work dearest are the
shadow prices of a linear program: a weave whose members' rates are worth 1 wastes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log2
from typing import TYPE_CHECKING, Final

from weft.scheduling.weaving.simplex import maximise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

STEPS_PER_OCTAVE: Final = 2
"""The mix of work is rounded to this many steps per factor of two: prices are corners of a polytope, and change in
jumps as the mix does."""
NO_WORK: Final = -1000
"""The rounded work of a profile that has none."""
MAX_REMEMBERED: Final = 4096
MAX_CORNERS: Final = 256
MAX_SUBSETS: Final = 256
INSIDE: Final = 1e-9
"""Work with smaller coordinates than this lies on the border of a cone, where several corners may be best."""
MAX_CONDITION: Final = 1e8
"""A corner whose tight constraints are nearer to dependent than this is not remembered: its cone is too inexact."""
DIGITS: Final = 12
"""Prices are rounded: the way to a corner does not show in its last digits."""


def price_work(rates: Numbers, work_s: Numbers) -> Numbers:
    """Return the valid prices that make the work dearest.

    `rates` has a row for each weave and each job alone: solo seconds done per second, summed by profile."""
    import numpy as np

    largest = float(work_s.max()) if len(work_s) else 0.0
    if largest <= 0:
        return np.zeros(len(work_s))
    return valid_prices(rates, maximise(work_s / largest, rates, np.ones(len(rates))).x)


def valid_prices(rates: Numbers, prices: Numbers) -> Numbers:
    """Scale prices down to valid ones: rounding errors do not make a bound wrong."""
    import numpy as np

    return np.asarray(prices / max(1.0, float((rates @ prices).max())))


@dataclass
class _Corners:
    """The corners of one polytope of valid prices that were found so far.

    A corner is the only best one for each mix of work that lies inside the cone of its tight constraints. So a mix
    gets the same prices, whatever corners are known."""

    rates: Numbers
    inverses: list[Numbers] = field(default_factory=list)
    """For each corner, the matrix that takes work to its coordinates in the cone."""
    prices: list[Numbers] = field(default_factory=list)
    _stack: Numbers | None = None
    """All inverses; None: one was added since."""

    def price(self, work: Numbers) -> Numbers:
        """Return the valid prices that make the work dearest."""
        import numpy as np

        work = work / work.max()
        if self.inverses:
            if self._stack is None:
                self._stack = np.array(self.inverses)
            inside = np.flatnonzero((self._stack @ work).min(axis=1) > INSIDE)
            if len(inside):
                return self.prices[int(inside[0])]
        corner = maximise(work, self.rates, np.ones(len(self.rates)))
        tight = np.concatenate((-np.eye(len(work)), self.rates))[corner.tight]
        prices = valid_prices(self.rates, corner.x).round(DIGITS)
        if len(self.inverses) < MAX_CORNERS and np.linalg.cond(tight) < MAX_CONDITION:
            self.inverses.append(np.asarray(np.linalg.inv(tight.T), dtype=np.float64))
            self.prices.append(prices)
            self._stack = None
        return prices


@dataclass
class PriceList:
    """The prices of one set of rates by the mix of work, remembered."""

    rates: Numbers
    prior: float = 0.2
    """The work that each profile is taken to have besides its own, in parts of the mean."""
    floor: float = 0.1
    """The least price. Without it, abundant work that fits into every weave would weigh nothing."""
    _known: dict[tuple[int, ...], Numbers] = field(default_factory=dict, repr=False)
    _corners: dict[tuple[bool, ...], _Corners] = field(default_factory=dict, repr=False)
    """By which profiles have work."""

    def prices(self, work_s: Sequence[float]) -> Numbers:
        """Return prices for about this mix of work, 0 for profiles without work. Equal mixes get equal prices, whatever
        was asked before."""
        live = [each for each in work_s if each > 0]
        mean = sum(live) / len(live) if live else 1.0
        mix = tuple([round(log2(w / mean + self.prior) * STEPS_PER_OCTAVE) if w > 0 else NO_WORK for w in work_s])
        known = self._known.get(mix)
        if known is None:
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            known = self._known[mix] = self._solve(mix)
        return known

    def _solve(self, mix: Sequence[int]) -> Numbers:
        """Price the work of the profiles that have some, as if there were no others."""
        import numpy as np

        parts = np.array(mix)
        live, prices = parts != NO_WORK, np.zeros(len(parts))
        if not live.any():
            return prices
        which = tuple(live.tolist())
        if which not in self._corners:
            if len(self._corners) >= MAX_SUBSETS:
                self._corners.clear()
            self._corners[which] = _Corners(self.rates[~self.rates[:, ~live].any(axis=1)][:, live])
        prices[live] = np.maximum(self._corners[which].price(2.0 ** (parts[live] / STEPS_PER_OCTAVE)), self.floor)
        return prices
