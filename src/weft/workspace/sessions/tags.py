"""Tags that identify the sessions of Weft: the scheduler's state, the workspace and the run that is shown."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple, Self

from weft.workspace.config import Config
from weft.workspace.locks import workspace_id

NO_VALUE = "-"


class Tag(NamedTuple):
    """The tag of a session; its text is the value of a tmux option."""

    state: str
    """A hash of the scheduler's state folder."""
    workspace: str
    job: str = NO_VALUE
    """`-`: this is the scheduler's session."""
    run: str = NO_VALUE

    def __str__(self) -> str:
        return " ".join(self)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the tag with this text; None if the text is not a tag."""
        parts = text.split(" ")
        return cls(*parts) if len(parts) == 4 else None


def state_id(state: Path) -> str:
    """Return a short name that is unique to a state folder."""
    return hashlib.sha256(str(state).encode(errors="surrogateescape")).hexdigest()[:12]


def tag_of(state: Path, config: Config) -> Tag:
    """Return the tag of a workspace's scheduler session."""
    return Tag(state_id(state), workspace_id(config))
