"""The path of the data: the setting `data`, a variable of the environment, or generated data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from weft.errors import InputError
from weft_workloads.data.generated import cached

VARIABLES: Final = {"imagenet": "judge_path", "wikitext": "TRAIN_FILE"}


def data_path(kind: str, given: str | None, seed: int) -> tuple[Path, str]:
    """Return the path of the data and where it comes from."""
    variable = VARIABLES[kind]
    if given:
        return _existing(kind, given, "data"), "data"
    if os.environ.get(variable):
        return _existing(kind, os.environ[variable], variable), variable
    return cached(kind, seed), "generated"


def _existing(kind: str, given: str, said_by: str) -> Path:
    path = Path(given).expanduser()
    if not path.exists():
        raise InputError(
            f"{said_by} is {given}, which does not exist",
            hint=f"give the path of {kind}, or make a small one: python -m weft_workloads make-data {kind} {path}",
        )
    return path
