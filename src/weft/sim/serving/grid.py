"""Latency grids: the seconds of a batch by its size and by the share of the GPU, measured on a GPU or given."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from weft.errors import InputError
from weft.inputs.files import read_text

PERCENT: Final = 100.0
FORM: Final = "expected lines of batch size, share in percent, seconds[, throughput]"


@dataclass(frozen=True)
class LatencyGrid:
    """Measured points; between them the seconds are interpolated, outside of them the nearest point counts."""

    seconds_at: Mapping[tuple[int, float], float]
    """Seconds by batch size and share (a part of the GPU)."""
    batches: tuple[int, ...] = field(init=False)
    shares: tuple[float, ...] = field(init=False)
    _known: dict[tuple[int, float], float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "batches", tuple(sorted({batch for batch, _ in self.seconds_at})))
        object.__setattr__(self, "shares", tuple(sorted({share for _, share in self.seconds_at})))
        if not self.seconds_at or len(self.seconds_at) < len(self.batches) * len(self.shares):
            raise InputError("a latency grid with missing points", hint="give every batch size at every share")

    def seconds(self, batch: int, share: float) -> float:
        """Return the seconds of a batch at this share."""
        known = self._known.get((batch, share))
        if known is None:
            low, high, part = _between(self.shares, share)
            known = (1 - part) * self._of_batch(batch, low) + part * self._of_batch(batch, high)
            self._known[batch, share] = known
        return known

    def throughput(self, batch: int, share: float) -> float:
        """Return the requests per second of a replica that always serves full batches."""
        return batch / self.seconds(batch, share)

    def capacity(self, slots: int, share: float) -> float:
        """Return the most requests per second with batches of up to this size."""
        return max(self.throughput(batch, share) for batch in range(1, slots + 1))

    def _of_batch(self, batch: int, share: float) -> float:
        low, high, part = _between(self.batches, batch)
        return (1 - part) * self.seconds_at[int(low), share] + part * self.seconds_at[int(high), share]


def _between(points: tuple[float, ...] | tuple[int, ...], at: float) -> tuple[float, float, float]:
    """Return the two points around a value, and how far it is from the first to the second."""
    low = points[max(bisect_right(points, at + 1e-9) - 1, 0)]
    high = points[min(bisect_left(points, at - 1e-9), len(points) - 1)]
    return low, high, (at - low) / (high - low) if high > low else 0.0


def read_grid(path: str) -> LatencyGrid:
    """Read a grid: lines of batch size, share in percent, seconds, and perhaps throughput, which is not used."""
    points: dict[tuple[int, float], float] = {}
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if not line.strip() or (number == 1 and not _is_number(cells[0])):
            continue
        where = f"{path}:{number}"
        if len(cells) not in (3, 4) or not all(map(_is_number, cells)):
            raise InputError(f"bad line {line.strip()[:60]!r}", where=where, hint=FORM)
        batch, percent, seconds = map(float, cells[:3])
        if batch != int(batch) or not 1 <= batch <= 1_000_000 or not 0 < percent <= PERCENT or not 0 < seconds < 1e6:
            hint = "expected a whole batch size from 1, a share above 0 up to 100 percent, and seconds above 0"
            raise InputError(f"bad line {line.strip()[:60]!r}", where=where, hint=hint)
        point = (int(batch), percent / PERCENT)
        if point in points:
            raise InputError(f"batch {int(batch)} at {percent:g} % twice", where=where, hint="give each point once")
        points[point] = seconds
    if not points:
        raise InputError("an empty latency grid", where=path, hint=FORM)
    try:
        return LatencyGrid(points)
    except InputError as error:
        raise error.at(where=path) from None


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) < float("inf")
    except ValueError:
        return False


def example_grid() -> LatencyGrid:
    """Return a grid like that of a large BERT on an A100: 20.7 ms alone and 124/s in batches of 8 at 30 %."""
    fixed = {0.1: 0.006, 0.2: 0.012, 0.3: 0.0144, 0.4: 0.0136, 0.6: 0.0128, 1.0: 0.012}
    each = {0.1: 0.024, 0.2: 0.0115, 0.3: 0.0063, 0.4: 0.0048, 0.6: 0.003, 1.0: 0.0021}
    batches = (1, 2, 4, 8, 16, 32)
    return LatencyGrid({(b, share): fixed[share] + each[share] * b for share in fixed for b in batches})
