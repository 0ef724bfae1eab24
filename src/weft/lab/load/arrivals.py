"""Times of requests whose rate changes each second, as regular or as bunched as asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weft.errors import InputError

MAX_REQUESTS: Final = 10_000_000
MAX_VARIATION: Final = 20.0


def draw_arrivals(rates: Sequence[float], variation: float, seed: int) -> list[float]:
    """Return the seconds at which requests are due.

    The gaps are Gamma distributed with this coefficient of variation on the scale of expected requests: 1 is Poisson, 0
    is regular, and more is bunched.
    """
    import numpy as np

    expected = float(sum(rates))
    if expected > MAX_REQUESTS:
        raise InputError(f"{expected:,.0f} requests", hint=f"at most {MAX_REQUESTS:,}; lower the rate or the duration")
    if not 0 <= variation <= MAX_VARIATION:
        raise InputError(f"a variation of {variation:g}", hint=f"from 0 (regular) to {MAX_VARIATION:g}; 1 is Poisson")
    sums = np.concatenate([[0.0], np.cumsum(np.asarray(rates, dtype=float))])
    if variation == 0:
        due = np.arange(0.5, expected, 1.0)
    else:
        draws, shape = np.random.default_rng(seed), 1 / variation**2
        due = np.zeros(0)
        while not len(due) or due[-1] < expected:
            gaps = draws.gamma(shape, 1 / shape, int(expected * 1.1) + 100)
            due = np.concatenate([due, np.cumsum(gaps) + (due[-1] if len(due) else 0.0)])
        due = due[due < expected]
    times = np.interp(due, sums, np.arange(len(sums), dtype=float))
    return [float(each) for each in times]
