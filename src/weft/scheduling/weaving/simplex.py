"""Linear programs: maximise c x with A x <= b and x >= 0, for b >= 0, by the simplex method on a dense tableau."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from weft.errors import WeftError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

TOLERANCE: Final = 1e-9
MAX_PIVOTS: Final = 20_000
MAX_STALLED: Final = 50
"""After this many pivots without gain, Bland's rule chooses: it never cycles."""


class Corner(NamedTuple):
    """The solution of a program: a corner of the polytope of all feasible x."""

    value: float
    """The largest c x."""
    x: Numbers
    tight: NDArray[np.intp]
    """As many constraints as x has entries, which hold with equality here: i stands for x[i] >= 0, and the number of
    entries + r for row r of A. They are linearly independent."""


def maximise(c: Numbers, a: Numbers, b: Numbers) -> Corner:
    """Return the x with the largest c x. The program is feasible (x = 0); raise WeftError if it is unbounded."""
    import numpy as np

    rows, columns = a.shape
    tableau = np.zeros((rows + 1, columns + 1))
    tableau[:rows, :columns], tableau[:rows, columns], tableau[rows, :columns] = a, b, -c
    basis, outside = np.arange(columns, columns + rows), np.arange(columns)
    stalled = 0
    for _ in range(MAX_PIVOTS):
        reduced = tableau[rows, :columns]
        if stalled > MAX_STALLED:
            able = np.flatnonzero(reduced < -TOLERANCE)
            column = int(able[np.argmin(outside[able])]) if len(able) else -1
        else:
            column = int(np.argmin(reduced))
            column = column if reduced[column] < -TOLERANCE else -1
        if column < 0:
            x = np.zeros(rows + columns)
            x[basis] = tableau[:rows, columns]
            return Corner(float(tableau[rows, columns]), x[:columns], outside)
        entries, left = tableau[:rows, column], np.maximum(tableau[:rows, columns], 0.0)
        able = np.flatnonzero(entries > TOLERANCE)
        if not len(able):
            raise WeftError("the linear program is unbounded")
        ratios = left[able] / entries[able]
        # Harris: of all rows whose limit is reached within the tolerance, the largest pivot. A smaller one may be a
        # rounding error of 0, and the constraints that hold with equality would not be independent.
        ties = able[ratios <= ((left[able] + TOLERANCE) / entries[able]).min()]
        row = int(ties[np.argmin(basis[ties])] if stalled > MAX_STALLED else ties[np.argmax(entries[ties])])
        stalled = 0 if left[row] / entries[row] > TOLERANCE else stalled + 1
        _pivot(tableau, row, column)
        basis[row], outside[column] = outside[column], basis[row]
    raise WeftError("the linear program takes too many steps")


def _pivot(tableau: Numbers, row: int, column: int) -> None:
    """Swap a variable of the basis with one outside of it."""
    import numpy as np

    pivot = tableau[row, column]
    pivot_row = tableau[row] / pivot
    pivot_column = tableau[:, column].copy()
    tableau -= np.outer(pivot_column, pivot_row)
    tableau[row] = pivot_row
    tableau[:, column] = -pivot_column / pivot
    tableau[row, column] = 1 / pivot
