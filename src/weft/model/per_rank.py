"""A figure for each rank of a job, such as the memory of its GPU."""

from __future__ import annotations


class PerRank(tuple[int, ...]):
    """`PerRank(10)`: 10 for every rank; `PerRank(10, 20)`: one figure for each. It is immutable and hashable."""

    __slots__ = ()

    def __new__(cls, *figures: int) -> PerRank:
        return super().__new__(cls, figures or (0,))

    @classmethod
    def parse(cls, value: int | list[int] | tuple[int, ...]) -> PerRank:
        """Parse the JSON form: one number for all ranks, or a list with one for each."""
        return cls(value) if isinstance(value, int) else cls(*value)

    @property
    def differs(self) -> bool:
        """True if each rank has a separate figure."""
        return len(self) > 1

    @property
    def max(self) -> int:
        return max(self)

    @property
    def min(self) -> int:
        return min(self)

    def of(self, rank: int) -> int:
        return self[rank] if len(self) > 1 else self[0]

    def each(self, ranks: int) -> tuple[int, ...]:
        """Return the figures of this many ranks, in rank order."""
        return tuple(self) if len(self) > 1 else (self[0],) * ranks

    def plain(self) -> int | list[int]:
        """Return the JSON form."""
        return list(self) if len(self) > 1 else self[0]

    def __bool__(self) -> bool:
        """Return False for a single figure of 0, which means not counted."""
        return len(self) > 1 or self[0] != 0

    def __getnewargs__(self) -> tuple[int, ...]:
        return tuple(self)

    def __str__(self) -> str:
        return "+".join(map(str, self))

    def __repr__(self) -> str:
        return f"PerRank({', '.join(map(str, self))})"
