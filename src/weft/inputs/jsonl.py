"""JSON lines as tables of cells, so that the readers of CSV tables can read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from weft.errors import InputError
from weft.inputs.csv import Row, Table, shorten

CELL_SEPARATOR: Final = "+"
_HINT: Final = 'expected one JSON object per line, such as {"submit_s": 0, "gpus": 1, "duration_s": 60}'


def is_jsonl(text: str) -> bool:
    return text.lstrip()[:1] == "{"


def parse_jsonl(text: str, file: str) -> Table:
    """Return a table whose rows have their own columns; the table's columns are those of the first row."""
    rows = _rows(text, file)
    first = next(rows)
    return Table(file, first.line, first.columns, chain([first], rows), header=False)


def _rows(text: str, file: str) -> Iterator[Row]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            pairs = _parse(line, f"{file}:{number}")
            columns = {name: at for at, (name, _) in enumerate(pairs)}
            if len(columns) < len(pairs):
                twice = next(name for at, (name, _) in enumerate(pairs) if columns[name] != at)
                raise InputError(f"field {shorten(twice)} occurs twice", where=f"{file}:{number}", hint=_HINT)
            cells = [_cell(name, value, f"{file}:{number}") for name, value in pairs]
            yield Row(file, number, cells, columns)


class _Pairs(list[tuple[str, Any]]):
    """The fields of an object in written order, duplicates included."""


def _parse(line: str, where: str) -> _Pairs:
    try:
        found = json.loads(line, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg} at column {error.colno}", where=where, hint=_HINT) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {str(error)[:200]}", where=where, hint=_HINT) from None
    if not isinstance(found, _Pairs):
        raise InputError(f"not a JSON object: {shorten(line.strip())}", where=where, hint=_HINT)
    return found


def _cell(name: str, value: object, where: str) -> str:
    """Return the value as a cell of a CSV."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return repr(value)
    if _fits_cell(name, value):
        return format_cell(dict(value) if isinstance(value, _Pairs) else value)
    hint = "expected text, a number, true, false, null, a list of these; labels may be an object"
    raise InputError(f"bad {name[:80]} {shorten(json.dumps(value))}", where=where, hint=hint)


def _fits_cell(name: str, value: object) -> bool:
    """Return whether the value is a list or object that fits into a cell."""
    if isinstance(value, _Pairs):
        return name == "labels" and len(dict(value)) == len(value) and all(isinstance(text, str) for _, text in value)
    return isinstance(value, list) and bool(value) and all(type(each) in (int, float, str) for each in value)


def format_cell(value: object) -> str:
    """Return a list or object as the text of a cell."""
    if isinstance(value, dict):
        parts = [f"{name}={text}" for name, text in value.items()]
        plain = all(_is_plain(name) and _is_plain(text) for name, text in value.items())
    else:
        parts = [str(part) for part in value] if isinstance(value, list) else []
        plain = all(map(_is_plain, parts))
    return CELL_SEPARATOR.join(parts) if plain else json.dumps(value, ensure_ascii=False)


def _is_plain(text: object) -> bool:
    return isinstance(text, str) and text == text.strip() != "" and not set(text) & set("+={[")
