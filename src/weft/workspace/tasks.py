"""Tasks: the configs to run, with their names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.errors import InputError, near_words
from weft.inputs.quantities import parse_whole_or_none
from weft.text import natural
from weft.workspace.config import Config
from weft.workspace.task.verdict import MARKER

MAX_FILE_NAME_BYTES: Final = 255
NAME_PARAM: Final = "config_name"
"""The param of a job that names its config."""
HOME_PARAM: Final = "workspace"
"""The param that holds the folder of the workspace."""
BACKEND_PARAM: Final = "session_backend"
"""The param that holds the session backend, unless it is tmux."""
RERUN_PARAM: Final = "rerun"
"""The param of a job that ignores older markers."""


@dataclass(frozen=True)
class Task:
    """A config to run."""

    name: str
    path: Path
    gpu: int | None = None
    """The GPU to use; None: the scheduler chooses."""


# ---- selection


def all_tasks(config: Config) -> list[Task]:
    """Return every config of the workspace, in order."""
    folder, pattern = config.path("config_dir"), config.text("config_pattern")
    if not folder.is_dir():
        where = config.origins["config_dir"]
        raise InputError(f"config_dir {folder} is not a folder", where="" if where == "default" else where)
    if os.path.isabs(pattern) or ".." in Path(pattern).parts:
        where = config.origins["config_pattern"]
        raise InputError(f"bad config_pattern: {pattern[:80]!r}", where=where, hint="use a pattern within config_dir")
    try:
        found = [path for path in folder.glob(pattern) if path.is_file() and not _is_hidden(path, pattern)]
    except ValueError as error:
        raise InputError(f"bad config_pattern: {error}", where=config.origins["config_pattern"]) from None
    return _named_tasks(config, sorted(found, key=lambda path: natural(str(path))), [None] * len(found))


def _is_hidden(path: Path, pattern: str) -> bool:
    """Return whether the file is hidden, as the files that editors leave behind are."""
    return path.name.startswith(".") and not os.path.basename(pattern).startswith(".")


def chosen_tasks(config: Config, names: str, gpus: str = "") -> list[Task]:
    """Return the configs that a list names. The GPUs of the other list, in order, pin the first configs."""
    words = _split(names)
    if not words:
        raise InputError("no config is named", hint='name some: start "a.yml,b.yml"; start alone runs all')
    pins: list[int | None] = [*_parse_gpus(gpus)]
    if len(pins) > len(words):
        raise InputError(
            f"{len(pins)} GPUs for {len(words)} config{'s' if len(words) > 1 else ''}",
            hint="give at most one GPU for each config; the scheduler places the rest",
        )
    found = [_find(config, word) for word in words]
    missing = [word for word, path in zip(words, found, strict=True) if path is None]
    if missing:
        folder = config.path("config_dir")
        known = [path.name for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []
        places = filter(None, [f"looked in {folder}", near_words(missing[0], known), "nothing was started"])
        raise InputError(f"there is no config {', '.join(missing)}", hint="; ".join(places))
    paths = [path for path in found if path is not None]
    return _named_tasks(config, paths, pins + [None] * (len(words) - len(pins)))


def _find(config: Config, word: str) -> Path | None:
    candidates = (config.path("config_dir") / word, config.home / word)
    return next((path for path in candidates if path.is_file()), None)


def _split(text: str) -> list[str]:
    """Return the words of a list. It may end with a comma, but a gap is an error: later words would shift."""
    words = [part.strip() for part in text.strip().removesuffix(",").split(",")]
    if words == [""]:
        return []
    if "" in words:
        what = f"item {words.index('') + 1} of {text!r} is empty"
        raise InputError(what, hint="separate items by one comma, such as a.yml,b.yml")
    return words


def _parse_gpus(text: str) -> list[int]:
    found = []
    for word in _split(text):
        if (number := parse_whole_or_none(word, 0, 99_999_999)) is None:
            raise InputError(f"{word[:40]!r} is not the number of a GPU", hint='such as "0,0,1"; see weft gpus')
        found.append(number)
    return found


def _named_tasks(config: Config, paths: Sequence[Path], pins: Sequence[int | None]) -> list[Task]:
    by_name: dict[str, Path] = {}
    tasks = []
    for path, pin in zip(paths, pins, strict=True):
        name = _name(config, path)
        if name in by_name:
            raise InputError(
                f"{path.name} and {by_name[name].name} are both called {name}" if path != by_name[name]
                else f"{path.name} is named twice",
                hint="give them different names: logs and markers are named after the config",
            )  # fmt: skip
        by_name[name] = path
        tasks.append(Task(name, path, pin))
    return tasks


def _name(config: Config, path: Path) -> str:
    """Return the name of a config: its path below config_dir, without the suffix."""
    try:
        relative = path.relative_to(config.path("config_dir"))
    except ValueError:
        relative = Path(path.name)
    name = "_".join(relative.with_suffix("").parts)
    try:
        size = len(f"{name}{MARKER}.before".encode())
    except UnicodeEncodeError:
        raise InputError(f"{os.fsencode(path.name)!r} is not UTF-8 text", hint="give the config another name") from None
    if size > MAX_FILE_NAME_BYTES:
        raise InputError(f"the name {path.name} is too long", hint="give the config a shorter name")
    return name


# ---- markers


def marker_of(config: Config, name: str) -> Path:
    """Return the path of the file that marks a config as complete."""
    return config.path("output_dir") / f"{name}{MARKER}"
