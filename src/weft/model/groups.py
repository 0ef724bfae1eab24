"""Names of groups of jobs."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

WORKSPACE: Final = "workspace:"
"""The prefix of the group of a workspace. The path of its config file follows, or its folder and that path."""
CONFIG_FILE: Final = "scheduler_config.yml"


@lru_cache(maxsize=1024)
def group_label(group: str) -> str:
    """Return the short name of a group, for people: of a workspace, the name of its folder."""
    if not group.startswith(WORKSPACE):
        return group
    folder, file = _parts(group.removeprefix(WORKSPACE))
    name = folder.rstrip("/").rpartition("/")[2]
    return name if file == CONFIG_FILE else f"{name}:{file}"


def _parts(path: str) -> tuple[str, str]:
    """Return the folder of a workspace and the name of its config file."""
    folder, found, other = path.partition(":/")
    if found:
        return folder, other.rpartition("/")[2]
    folder, _, file = path.rpartition("/")
    return folder, file


def names_group(text: str, group: str) -> bool:
    """Return whether this text, as a user writes it, means the group: its name or its short name."""
    return group == text or group_label(group) == text
