"""Creates a workspace in a folder, or converts an old one. Replaced files are kept as backups."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import yaml

from weft.errors import InputError
from weft.inputs.yaml import YamlValue, parse_yaml
from weft.workspace import templates
from weft.workspace.config import FILE, UNQUOTED, parse_value, read
from weft.workspace.keys import BY_NAME, KEYS, Value

WRAPPER_FILE: Final = "scheduler.sh"
MAX_SECTION_DEPTH: Final = 3
"""Depth to which the sections of an old config are read."""
TEXT_KINDS: Final = ("text", "name", "path")
MAX_SCRIPT_CHARS: Final = 1 << 20
"""The part of an old script that is read."""
_VARIABLE: Final = r"(?m)^[ \t]*(?:export[ \t]+|readonly[ \t]+)?([A-Z][A-Z_]*)=([^\s;#]{0,200})"
_RESOLVER: Final = yaml.resolver.Resolver()


@dataclass
class SetupSummary:
    """The changes that `create_workspace` made."""

    home: Path
    made: list[str] = field(default_factory=list)
    """Files and folders that were created."""
    kept: list[str] = field(default_factory=list)
    """The backups of files that were replaced."""
    taken: list[str] = field(default_factory=list)
    """Keys of the old config that are in the new one."""
    dropped: list[str] = field(default_factory=list)
    """Keys that are not, with the reason."""


def create_workspace(folder: str, *, force: bool = False) -> SetupSummary:
    """Create a workspace. With `force`, convert one that exists; else raise InputError if one does."""
    home = Path(os.path.realpath(folder))
    found = [name for name in (WRAPPER_FILE, FILE) if os.path.lexists(home / name)]
    if found and not force:
        raise InputError(
            f"{home} has {' and '.join(found)} already",
            hint="weft workspace init --force converts it, and keeps replaced files as *.bak",
        )
    if home.exists() and not home.is_dir():
        raise InputError(f"{home} is not a folder")
    done = SetupSummary(home)
    given = _old_values(home / FILE, done) if force and (home / FILE).is_file() else {}
    if force and (home / WRAPPER_FILE).is_file():
        done.dropped += _variables(home / WRAPPER_FILE, given)
    name = str(given.pop("task_name", "")) or _task_name(home)
    home.mkdir(parents=True, exist_ok=True)
    _write(home / WRAPPER_FILE, templates.wrapper(), done, mode=0o755)
    _write(home / FILE, templates.config(name, given), done)
    config = read(home)
    configs = config.path("config_dir")
    for each in (configs, config.path("output_dir")):
        _create_folder(each, done)
    if configs.is_dir() and not any(configs.iterdir()):
        _write(configs / templates.EXAMPLE_FILE, templates.EXAMPLE, done)
    return done


def _create_folder(folder: Path, done: SetupSummary) -> None:
    if folder.exists():
        return
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        done.dropped.append(f"{folder} cannot be created: {error.strerror}")
    else:
        done.made.append(f"{_relative(folder, done.home)}/")


def _relative(path: Path, home: Path) -> str:
    """Return the path relative to the workspace; in full if it is outside."""
    return str(path.relative_to(home)) if path.is_relative_to(home) else str(path)


def _task_name(home: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_+-]", "_", home.name)[:100].lstrip("+-") or "task"


def _write(path: Path, text: str, done: SetupSummary, mode: int = 0o644) -> None:
    """Write a file; rename another file at that path to a backup. A link is replaced, not followed."""
    if os.path.lexists(path):
        if not path.is_symlink() and path.is_file() and path.read_bytes() == text.encode():
            return
        kept = _free_backup_name(path)
        path.rename(kept)
        done.kept.append(kept.name)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
    done.made.append(_relative(path, done.home))


def _free_backup_name(path: Path) -> Path:
    for number in range(1, 10_000):
        kept = path.with_name(f"{path.name}.bak" if number == 1 else f"{path.name}.{number}.bak")
        if not os.path.lexists(kept):
            return kept
    raise InputError(f"there are too many {path.name}.*.bak", hint="remove some of them")


# ---- an old config


def _old_values(path: Path, done: SetupSummary) -> dict[str, Value]:
    """Return the values of an old config that are still valid; add the others to `dropped`."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        root = parse_yaml(UNQUOTED.sub(r'\1"\2"', text), str(path))
    except InputError as error:
        done.dropped.append(f"all of {path.name}: {error.what}")
        return {}
    found: dict[str, Value] = {}
    for name, marked in _leaves(root, MAX_SECTION_DEPTH):
        key = BY_NAME.get(name)
        try:
            if key is None:
                done.dropped.append(f"{name}: not a key")
            elif name in found:
                done.dropped.append(f"{name}: given twice")
            else:
                found[name] = parse_value(key, marked if key.kind in TEXT_KINDS else _unquoted(marked))
        except InputError as error:
            done.dropped.append(f"{name}: {error.hint or error.what}")
    done.taken += [key.name for key in KEYS if key.name in found]
    return found


def _variables(script: Path, given: Collection[str]) -> Iterator[str]:
    """Yield the keys that an old script sets as variables of the shell, unless the old config gives them too."""
    with open(script, encoding="utf-8", errors="replace") as file:
        found = re.finditer(_VARIABLE, file.read(MAX_SCRIPT_CHARS))
    settings = {match[1].lower(): match for match in found if match[1].lower() in BY_NAME}
    for name, match in settings.items():
        if name not in given:
            yield f"{match[1]}={match[2]} of {script.name}: set {name} in {FILE}"


def _unquoted(marked: YamlValue) -> YamlValue:
    """Return the value as if it had no quotes: old scripts read YAML with grep, which ignores quotes."""
    node = marked.node
    if not isinstance(node, yaml.ScalarNode):
        return marked
    tag = _RESOLVER.resolve(yaml.ScalarNode, node.value, (True, False))  # type: ignore[no-untyped-call]
    return replace(marked, node=yaml.ScalarNode(tag, node.value, node.start_mark, node.end_mark))


def _leaves(marked: YamlValue, depth: int) -> list[tuple[str, YamlValue]]:
    """Return the keys and values of a mapping and of its sections."""
    if not isinstance(marked.node, yaml.MappingNode) or not depth:
        return []
    found = []
    for name, value in marked.mapping("the old config").entries.items():
        inner = _leaves(value, depth - 1) if name not in BY_NAME else []
        found += inner or [(name, value)]
    return found
