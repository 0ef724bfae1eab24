"""Check files without running anything: print the kind of each, or its first error with file and line.

Exit code 0: all are valid; 2: one is not."""

from __future__ import annotations

import argparse
from typing import Any, Final

from weft.cli import render
from weft.cli.file_kinds import BY_NAME, recognise
from weft.errors import InputError, WeftError

EXAMPLE: Final = """examples:
  weft validate tasks.yaml
  weft validate chat.yaml nodes.yaml trace.csv.gz
  weft validate --kind service chat.yaml --json"""

INVALID: Final = 2


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="tasks, a script, services, a cluster, a trace, ...")
    parser.add_argument("--kind", choices=tuple(BY_NAME), help="check it as this kind (default: by its content)")
    render.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    rows = [_check(path, args.kind) for path in args.files]
    if args.json:
        render.print_json({"schema": 1, "files": rows})
    else:
        for row in rows:
            if row["valid"]:
                print(f"{row['file']}: {row['kind']}, {row['holds']}")
            else:
                render.print_message(f"error: {row['error']}" + (f"\n  {row['hint']}" if row["hint"] else ""))
    return 0 if all(row["valid"] for row in rows) else INVALID


def _check(path: str, kind: str | None) -> dict[str, Any]:
    """Return what a file is and holds, or its first error."""
    row: dict[str, Any] = {"file": path, "kind": kind, "valid": False, "holds": None, "error": None, "hint": None}
    try:
        text = _read(path)
        found = BY_NAME[kind] if kind is not None else recognise(path, text)
        row["kind"] = found.name
        row["holds"] = found.check(path, text)
        row["valid"] = True
    except InputError as error:
        row["error"] = f"{error.where}: {error.text}" if error.where else f"{path}: {error.text}"
        row["hint"] = error.hint or None
    except WeftError as error:
        row["error"], _, row["hint"] = str(error).partition("\n  ")
    return row


def _read(path: str) -> str:
    """Return the text of a file; of a database, its mark."""
    from weft.inputs.files import read_text

    try:
        with open(path, "rb") as file:
            if file.read(16) == b"SQLite format 3\0":
                return "SQLite format 3\0"
    except OSError as error:
        raise InputError(error.strerror or str(error), where=path) from None
    return read_text(path)
