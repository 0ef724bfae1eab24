"""The folder of a testbed: a folder per cell, with the result once the cell has finished.

OUT/testbed.json         what the folder is, so that another command does not write there
OUT/cells/NAME/cell.json       the result: written last, so that a cell with one is finished
OUT/cells/NAME/journal.jsonl   every event and decision of the scheduler
OUT/cells/NAME/cluster.json    where the cluster of an unfinished cell runs
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from weft.errors import InputError
from weft.inputs import locks
from weft.inputs.atomic import write_atomic
from weft.lab.testbed.matrix import Cell

MARK: Final = "testbed.json"
CELLS: Final = "cells"
RESULT: Final = "cell.json"
JOURNAL: Final = "journal.jsonl"
CLUSTER: Final = "cluster.json"
SCHEMA: Final = 1


class Store:
    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self) -> None:
        """Create the folder. Raise if it holds something else."""
        mark = self.root / MARK
        if not mark.exists():
            if self.root.exists() and (not self.root.is_dir() or any(self.root.iterdir())):
                raise InputError("not empty, and no testbed", where=str(self.root), hint="name a new folder: --out DIR")
            self.root.mkdir(parents=True, exist_ok=True)
            write_atomic(mark, json.dumps({"kind": "testbed", "schema": SCHEMA}).encode())
        self.check()

    def check(self) -> None:
        """Raise if the folder is no testbed that this version can read."""
        try:
            found = json.loads((self.root / MARK).read_bytes())
        except (OSError, ValueError):
            raise InputError("no testbed", where=str(self.root), hint="weft testbed run --out DIR makes one") from None
        if not isinstance(found, dict) or found.get("kind") != "testbed" or found.get("schema") != SCHEMA:
            hint = "a newer Weft may have written it; name another folder"
            raise InputError("a testbed that this version cannot read", where=str(self.root), hint=hint)

    @contextmanager
    def locked(self, cell: Cell) -> Iterator[Path]:
        """Hold the folder of a cell; raise Refused if another driver runs the cell."""
        folder = self.folder(cell)
        folder.mkdir(parents=True, exist_ok=True)
        with locks.locked(folder / "lock", f"another weft testbed runs {cell.name}", "wait for it, or interrupt it"):
            yield folder

    def folder(self, cell: Cell) -> Path:
        return self.root / CELLS / cell.name

    def is_finished(self, cell: Cell) -> bool:
        return (self.folder(cell) / RESULT).exists()

    def save(self, cell: Cell, result: Mapping[str, Any]) -> None:
        body = {"schema": SCHEMA, "cell": asdict(cell), **result}
        write_atomic(self.folder(cell) / RESULT, (json.dumps(body, indent=2, allow_nan=False) + "\n").encode())

    def results(self) -> list[tuple[Cell, Mapping[str, Any]]]:
        """Return the finished cells, by name."""
        return [self._read(path) for path in sorted(self.root.glob(f"{CELLS}/*/{RESULT}"))]

    def _read(self, path: Path) -> tuple[Cell, Mapping[str, Any]]:
        try:
            found = json.loads(path.read_bytes())
            return Cell(**found["cell"]), found
        except (OSError, ValueError, KeyError, TypeError):
            hint = "remove its folder, and run the cell again"
            raise InputError("not the result of a cell", where=str(path), hint=hint) from None

    def unfinished(self, cells: Sequence[Cell]) -> list[Cell]:
        return [cell for cell in cells if not self.is_finished(cell)]
