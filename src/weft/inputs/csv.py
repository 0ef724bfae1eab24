"""CSV tables whose rows know their file and line, and whose cells are checked when they are read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from weft.errors import InputError
from weft.inputs.files import read_text
from weft.inputs.quantities import parse_whole_or_none

MIN_POSITIVE: Final = 1e-6
MAX_NUMBER: Final = 10**15
"""Numbers outside these limits are mistakes. Within them, the product of two numbers stays finite and positive."""

_MAX_SHOWN: Final = 40


@dataclass(slots=True)
class Row:
    file: str
    line: int
    cells: list[str]
    columns: dict[str, int]

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"

    def text(self, column: str) -> str:
        """Return the cell without surrounding blanks; "" if the table lacks the column."""
        at = self.columns.get(column)
        if at is None:
            return ""
        text = self.cells[at].strip()
        if not text.isprintable():
            raise self.error(column, "text without control characters")
        return text

    def number(self, column: str, *, positive: bool = False) -> float:
        low = MIN_POSITIVE if positive else 0.0
        try:
            value = float(self.cells[self.columns[column]])
        except ValueError:
            value = -1.0
        if low <= value <= MAX_NUMBER:
            return value
        raise self.error(column, f"a number from {low:g} to {MAX_NUMBER:g}")

    def whole(self, column: str, *, low: int = 0, high: int = MAX_NUMBER) -> int:
        value = parse_whole_or_none(self.cells[self.columns[column]], low, high)
        if value is None:
            raise self.error(column, f"a whole number from {low:,} to {high:,}")
        return value

    def error(self, column: str, expected: str) -> InputError:
        found = shorten(self.cells[self.columns[column]])
        return InputError(f"bad {column} {found}", where=self.where, hint=f"expected {expected}, found {found}")


@dataclass(frozen=True, slots=True)
class Table:
    """A header and the rows below it, which are read lazily: the first error raised is the first in the file."""

    file: str
    line: int
    columns: dict[str, int]
    rows: Iterator[Row]
    header: bool = True
    """False: each row has its own columns."""

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def shown(self) -> str:
        """The columns as an error lists them."""
        shown = [shorten(column) for column in islice(self.columns, _MAX_SHOWN)]
        return ", ".join(shown) if len(shown) == len(self.columns) else ", ".join([*shown, "..."])


def read_table(path: str | Path) -> Table:
    return parse_table(read_text(path), str(path))


def parse_table(text: str, file: str) -> Table:
    records = _records(text, file)
    line, header = next(records, (1, []))
    if not header:
        raise InputError("an empty file", where=f"{file}:1", hint="expected a header line and one line per row")
    columns = _columns(header, f"{file}:{line}")
    return Table(file, line, columns, _rows(records, file, columns))


def shorten(text: str) -> str:
    """Return a cell for an error message: quoted, and shortened if it is very long."""
    return repr(text) if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]!r}... ({len(text):,} characters)"


def _columns(header: list[str], where: str) -> dict[str, int]:
    columns: dict[str, int] = {}
    for at, cell in enumerate(header):
        name = cell.strip()
        if columns.setdefault(name, at) != at:
            hint = "expected a header that names each column once; is this line a header?"
            raise InputError(f"column {shorten(name)} occurs twice", where=where, hint=hint)
    return columns


def _rows(records: Iterator[tuple[int, list[str]]], file: str, columns: dict[str, int]) -> Iterator[Row]:
    width = len(columns)
    for line, cells in records:
        if len(cells) != width:
            hint = f"expected {width}, as in the header, found {len(cells)}"
            raise InputError(f"too {'few' if len(cells) < width else 'many'} cells", where=f"{file}:{line}", hint=hint)
        yield Row(file, line, cells, columns)


def _records(text: str, file: str) -> Iterator[tuple[int, list[str]]]:
    """Yield every non-blank record with the line on which it starts: quoted cells may span lines."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        for cells in reader:
            if len(cells) > 1 or (cells and cells[0].strip()):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"not CSV: {error}", where=f"{file}:{line}", hint="look for a stray or missing quote"
        ) from None
