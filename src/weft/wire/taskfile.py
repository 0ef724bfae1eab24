"""Task files: JSON or YAML, one task or a list of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import yaml

from weft.errors import InputError
from weft.sim.marked import Marked, compose
from weft.wire.messages import JobSpec
from weft.wire.specs import ALIASES, SETTERS, Given, spec_of

MOST_BYTES: Final = 16 << 20
KEYS: Final = (*SETTERS, *ALIASES, *(key.replace("_", "-") for key in SETTERS if "_" in key))


def read_tasks(path: str) -> list[JobSpec]:
    """The jobs of a file, `-` for standard input; a mistake is an InputError with its file and line."""
    root = compose(_read(path), "stdin" if path == "-" else path)
    if isinstance(root.node, yaml.SequenceNode):
        tasks = root.items("a list of tasks")
        if not tasks:
            raise root.wrong("no task in it", "write one task, or a list of tasks")
        return [_task(task) for task in tasks]
    return [_task(root)]


def _read(path: str) -> str:
    try:
        raw = sys.stdin.buffer.read(MOST_BYTES + 1) if path == "-" else _head(Path(path))
        if len(raw) > MOST_BYTES:
            raise InputError(f"more than {MOST_BYTES >> 20} MB", where=path, hint="split it")
        return raw.decode()
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", where=path) from None
    except OSError as error:
        raise InputError(error.strerror or str(error), where=path, hint="give a JSON or YAML file") from None


def _head(path: Path) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(MOST_BYTES + 1)


def _task(marked: Marked) -> JobSpec:
    entries = marked.mapping("a task", KEYS).entries
    given = {key: _given(value) for key, value in entries.items()}
    try:
        return spec_of(given)
    except InputError as error:
        key = error.what.partition(":")[0]
        where = entries[key].where if key in entries else entries["command"].where if "command" in entries else ""
        raise InputError(error.what, where=error.where or where or marked.where, hint=error.hint) from None


def _given(marked: Marked) -> Given:
    if isinstance(marked.node, yaml.MappingNode):
        return {name: _scalar(value) for name, value in marked.mapping(marked.key).entries.items()}
    if isinstance(marked.node, yaml.SequenceNode):
        return [_scalar(value) for value in marked.items("a list")]
    return _scalar(marked)


def _scalar(marked: Marked) -> str:
    if not isinstance(marked.node, yaml.ScalarNode) or marked.node.tag.endswith(":null"):
        raise marked.expected("one value")
    return str(marked.node.value)
