"""Task files: JSON or YAML, one task or a list of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from weft.errors import InputError
from weft.sim.marked import Marked, compose
from weft.wire.messages import JobSpec
from weft.wire.specs import ALIASES, SETTERS, Given, canonical, spec_of

MOST_BYTES: Final = 16 << 20
KEYS: Final = (*SETTERS, *ALIASES, *(key.replace("_", "-") for key in SETTERS if "_" in key))


@dataclass
class Written:
    """A task as it stands in a file, and where each of its keys does."""

    given: dict[str, Given]
    where: str
    lines: dict[str, str]

    def spec(self) -> JobSpec:
        """The job; a mistake is an InputError with its file and line."""
        try:
            return spec_of(self.given)
        except InputError as error:
            raise self.located(error) from None

    def located(self, error: InputError) -> InputError:
        """The error, with the line of the key that it begins with."""
        key = error.what.partition(":")[0]
        where = self.lines.get(key) or (self.lines.get("command") if "in the command" in error.what else "")
        return InputError(error.what, where=error.where or where or self.where, hint=error.hint)


def read_tasks(path: str) -> list[Written]:
    """The tasks of a file, `-` for standard input."""
    root = compose(_read(path), "stdin" if path == "-" else path)
    if isinstance(root.node, yaml.SequenceNode):
        tasks = root.items("a list of tasks")
        if not tasks:
            raise root.wrong("no task in it", "write one task, or a list of tasks")
        return [_task(task) for task in tasks]
    return [_task(root)]


def link(tasks: Sequence[Written]) -> None:
    """Turns `after: NAME` into `after: "#N"` where that is the name of another task of the file."""
    named: dict[str, list[int]] = {}
    for at, task in enumerate(tasks):
        if isinstance(name := task.given.get("name"), str):
            named.setdefault(name, []).append(at)
    for task in tasks:
        after = task.given.get("after")
        if isinstance(after, str):
            after = [part.strip() for part in after.split(",")]
        if isinstance(after, list):
            task.given["after"] = [_linked(ref, named, task) for ref in after]


def _linked(ref: str, named: dict[str, list[int]], task: Written) -> str:
    name = ref.removeprefix("afterok:")
    found = named.get(name, [])
    if len(found) > 1:
        error = InputError(
            f"after: {len(found)} tasks of the file are called {name!r}",
            hint='give them names of their own, or count: "#0" is the first',
        )
        raise task.located(error)
    return f"#{found[0]}" if found else ref


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


def _task(marked: Marked) -> Written:
    entries = marked.mapping("a task", KEYS).entries
    given: dict[str, Given] = {}
    lines: dict[str, str] = {}
    for key, value in entries.items():
        name = canonical(key)
        if name in given:
            raise value.wrong(f"{key}: said twice", f"{key} and {name} are the same; keep one")
        given[name], lines[name] = _given(value), value.where
    return Written(given, marked.where, lines)


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
