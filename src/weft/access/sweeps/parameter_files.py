"""Files with the parameters of trials: CSV, one row for each trial; YAML or JSON, a list of trials or a grid."""

from __future__ import annotations

from pathlib import Path

from weft.access.sweeps.parameters import MAX_TRIALS, Row, check_parameter, check_value, combine, grid, parse_values
from weft.errors import InputError


def read_parameters(path: str | Path) -> list[Row]:
    """Return one row of values for each trial of a file."""
    rows = _read_table(path) if Path(path).suffix.lower() == ".csv" else _read_yaml(path)
    if not rows:
        raise InputError("the file has no trials", where=str(path), hint="add a line for each trial below the header")
    if len(rows) > MAX_TRIALS:
        raise InputError(f"the file has {len(rows):,} trials, and {MAX_TRIALS:,} are allowed", where=str(path))
    return rows


def _read_table(path: str | Path) -> list[Row]:
    from weft.inputs.csv import read_table

    table = read_table(path)
    try:
        names = [check_parameter(name) for name in table.columns]
    except InputError as error:
        raise error.at(where=table.where) from None
    rows = []
    for each in table.rows:
        row = {name: each.text(name) for name in names}
        if empty := [name for name, value in row.items() if not value]:
            raise InputError(f"{empty[0]} is empty", where=each.where, hint="give each trial a value of each column")
        rows.append(row)
    return rows


def _read_yaml(path: str | Path) -> list[Row]:
    """Read a list of mappings, one for each trial; or a mapping, which is the grid of all combinations."""
    from weft.inputs.files import read_text
    from weft.inputs.yaml import parse_yaml

    root = parse_yaml(read_text(path), str(path))
    if root.is_list:
        rows = []
        for item in root.items("a list of trials"):
            with item.locating():
                entries = item.mapping("a trial").entries
                rows.append({check_parameter(name): check_value(value.text()) for name, value in entries.items()})
                if rows[-1].keys() != rows[0].keys():
                    raise InputError(
                        f"the trial has {', '.join(rows[-1]) or 'no parameters'}, the first one {', '.join(rows[0])}",
                        hint="give each trial a value of each parameter",
                    )
        return rows
    values: list[tuple[str, list[str]]] = []
    for name, value in root.mapping("the grid").entries.items():
        with value.locating():
            found = [check_value(each.text()) for each in value.items("values")] if value.is_list else None
            values.append((check_parameter(name), parse_values(value.text()) if found is None else found))
    return combine(grid(values))
