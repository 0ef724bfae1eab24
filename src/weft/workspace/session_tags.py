"""Whose a session is: the scheduler's state, the workspace and the run that it shows."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple, Self

from weft.workspace.config import Config
from weft.workspace.locks import mark

NOBODY = "-"


class Tag(NamedTuple):
    state: str
    workspace: str
    job: str = NOBODY
    """`-`: the session of the workspace itself."""
    run: str = NOBODY

    def __str__(self) -> str:
        return " ".join(self)

    @classmethod
    def read(cls, text: str) -> Self | None:
        parts = text.split(" ")
        return cls(*parts) if len(parts) == 4 else None


def state_mark(state: Path) -> str:
    return hashlib.sha256(str(state).encode(errors="surrogateescape")).hexdigest()[:12]


def tag_of(state: Path, config: Config) -> Tag:
    return Tag(state_mark(state), mark(config))
