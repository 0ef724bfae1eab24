"""Task files: JSON or YAML, one task or a list of tasks.

The fast JSON parser reads JSON. After an error, the YAML parser reads the file again, to report the line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml

from weft.access.jobspec.fields import ALIASES, READABLE, canonical, spec_of
from weft.access.jobspec.readers import Given
from weft.access.wire.messages import JobSpec
from weft.errors import InputError
from weft.inputs import dependencies
from weft.inputs.yaml import YamlValue, parse_yaml

MAX_FILE_BYTES: Final = 16 << 20
KEYS: Final = (*READABLE, *ALIASES, *(key.replace("_", "-") for key in READABLE if "_" in key))


@dataclass
class Source:
    """The text of a task file."""

    name: str
    text: str

    @cached_property
    def tasks(self) -> list[YamlValue]:
        """The tasks of the file, each value with its line."""
        root = parse_yaml(self.text, self.name)
        if not isinstance(root.node, yaml.SequenceNode):
            return [root]
        tasks = root.items("a list of tasks")
        if not tasks:
            raise root.error("no task in it", "write one task, or a list of tasks")
        return list(tasks)


@dataclass
class Written:
    """A task as the file has it."""

    given: dict[str, Given]
    source: Source
    number: int

    def spec(self) -> JobSpec:
        """Return the job. An InputError has the file and line."""
        try:
            return spec_of(self.given)
        except InputError as error:
            raise self.located(error) from None

    def where(self, key: str = "") -> str:
        """Return file and line of a key, or of the task."""
        task = self.source.tasks[self.number]
        entries = {canonical(name): value for name, value in task.mapping("a task").entries.items()}
        return entries[key].where if key in entries else task.where

    def located(self, error: InputError) -> InputError:
        """Return the error with the line of its key, or of the task."""
        return error if error.where else error.at(where=self.where(canonical(error.key)))


def read_tasks(path: str) -> list[Written]:
    """Return the tasks of a file; `-` is standard input."""
    name, text = "stdin" if path == "-" else path, _read(path)
    if not text.strip():
        raise InputError("an empty file", where=f"{name}:1", hint="write one task, or a list of tasks")
    root = _json(text)
    # YAML does not accept tabs as blanks; JSON strings contain none
    source = Source(name, text if root is None else text.replace("\t", " "))
    found = None if root is None else _plain_tasks(root)
    if found is not None:
        return [Written(given, source, at) for at, given in enumerate(found)]
    return [Written(_task(task), source, at) for at, task in enumerate(source.tasks)]


def link_dependencies(tasks: Sequence[Written]) -> None:
    """Replace `after: NAME` by `after: "#N"` if another task of the file has this name."""
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
    condition, name = dependencies.split(ref)
    found = named.get(name, [])
    if len(found) > 1:
        error = InputError(
            f"{len(found)} tasks of the file are called {name!r}",
            hint='give each a different name, or use its number: "#0" is the first',
            key="after",
        )
        raise task.located(error)
    return dependencies.join(condition, f"#{found[0]}") if found else ref


def _read(path: str) -> str:
    try:
        raw = sys.stdin.buffer.read(MAX_FILE_BYTES + 1) if path == "-" else _read_head(Path(path))
        if len(raw) > MAX_FILE_BYTES:
            raise InputError(f"more than {MAX_FILE_BYTES >> 20} MB", where=path, hint="split it")
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", where=path, hint="give a JSON or YAML file") from None
    except OSError as error:
        raise InputError(error.strerror or str(error), where=path, hint="give a JSON or YAML file") from None
    except ValueError:  # a NUL in the path
        raise InputError("not a path", where=repr(path[:80]), hint="give a JSON or YAML file") from None


def _read_head(path: Path) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


# ---- as JSON


class _NotPlain(ValueError):
    """The task is not plain: the YAML parser reports the error."""


def _json(text: str) -> Any:
    """Return the parsed value; None if the text is not JSON, or null."""
    try:
        return json.loads(text, object_pairs_hook=_Pairs, parse_int=_Number, parse_float=_Number)
    except (ValueError, RecursionError):
        return None


class _Number(str):
    """A number as the file writes it."""


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with all its keys, also repeated ones."""


def _plain_tasks(root: Any) -> list[dict[str, Given]] | None:
    """Return the tasks; None if one of them is not plain."""
    tasks = [root] if isinstance(root, _Pairs) else root
    try:
        return [_plain_task(task) for task in tasks] or None if isinstance(tasks, list) else None
    except _NotPlain:
        return None


def _plain_task(task: Any) -> dict[str, Given]:
    if not isinstance(task, _Pairs) or not all(key in KEYS for key, _ in task):
        raise _NotPlain
    if any(key == "command" and isinstance(value, _Number) for key, value in task):
        raise _NotPlain
    return _unique([(canonical(key), _plain(value)) for key, value in task])


def _plain(value: Any) -> Given:
    if isinstance(value, _Pairs):
        return _unique([(name, _word(each)) for name, each in value])
    return [_word(each) for each in value] if isinstance(value, list) else _word(value)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        raise _NotPlain
    return value


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _NotPlain
    return found


# ---- as YAML


def _task(marked: YamlValue) -> dict[str, Given]:
    given: dict[str, Given] = {}
    for key, value in marked.mapping("a task", KEYS).entries.items():
        name = canonical(key)
        if name in given:
            raise value.error(f"{key}: given twice", f"{key} is the same as {name}: keep one of them")
        if name == "command" and value.node.tag.rpartition(":")[2] in ("int", "float"):
            raise value.expected("a list of words, or one line for the shell")
        given[name] = _given(value)
    return given


def _given(marked: YamlValue) -> Given:
    if isinstance(marked.node, yaml.MappingNode):
        return {name: _scalar(value) for name, value in marked.mapping(marked.key).entries.items()}
    if isinstance(marked.node, yaml.SequenceNode):
        return [_scalar(value) for value in marked.items("a list")]
    return _scalar(marked)


def _scalar(marked: YamlValue) -> str:
    if not isinstance(marked.node, yaml.ScalarNode) or marked.node.tag.endswith(":null"):
        raise marked.expected("one value")
    return str(marked.node.value)
