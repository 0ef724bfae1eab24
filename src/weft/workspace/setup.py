"""Makes a workspace of a folder, or converts what is there, keeping all that it replaces."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import yaml

from weft.errors import InputError
from weft.inputs.yaml import YamlValue, parse_yaml
from weft.workspace import templates
from weft.workspace.config import FILE, UNQUOTED, read, value_of
from weft.workspace.keys import BY_NAME, KEYS, Value

WRAPPER_FILE: Final = "scheduler.sh"
DEPTH: Final = 3
"""Old configs may have sections."""
TEXTUAL: Final = ("text", "name", "path")
_RESOLVER: Final = yaml.resolver.Resolver()


@dataclass
class Made:
    """What was done."""

    home: Path
    made: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """What was there, under its new name."""
    taken: list[str] = field(default_factory=list)
    """Keys of the old config that are in the new one."""
    dropped: list[str] = field(default_factory=list)
    """Keys that are not, and why."""


def make(folder: str, *, force: bool = False) -> Made:
    home = Path(os.path.realpath(folder))
    found = [name for name in (WRAPPER_FILE, FILE) if os.path.lexists(home / name)]
    if found and not force:
        raise InputError(
            f"{home} has {' and '.join(found)} already", hint="--force converts it, and keeps what it replaces as *.bak"
        )
    if home.exists() and not home.is_dir():
        raise InputError(f"{home} is not a folder")
    done = Made(home)
    given = _old_values(home / FILE, done) if force and (home / FILE).is_file() else {}
    name = str(given.pop("task_name", "")) or _task_name(home)
    home.mkdir(parents=True, exist_ok=True)
    _put(home / WRAPPER_FILE, templates.wrapper(), done, mode=0o755)
    _put(home / FILE, templates.config(name, given), done)
    config = read(home)
    configs = config.path("config_dir")
    for each in (configs, config.path("output_dir")):
        _make_folder(each, done)
    if configs.is_dir() and not any(configs.iterdir()):
        _put(configs / templates.EXAMPLE_FILE, templates.EXAMPLE, done)
    return done


def _make_folder(folder: Path, done: Made) -> None:
    if folder.exists():
        return
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        done.dropped.append(f"{folder} cannot be made: {error.strerror}")
    else:
        done.made.append(f"{near(folder, done.home)}/")


def near(path: Path, home: Path) -> str:
    """As it is seen from the workspace; in full where it lies elsewhere."""
    return str(path.relative_to(home)) if path.is_relative_to(home) else str(path)


def _task_name(home: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_+-]", "_", home.name)[:100].lstrip("+-") or "task"


def _put(path: Path, text: str, done: Made, mode: int = 0o644) -> None:
    """The file with this text; what was there gets another name. A link is replaced, not followed."""
    if os.path.lexists(path):
        if not path.is_symlink() and path.is_file() and path.read_bytes() == text.encode():
            return
        kept = _free_name(path)
        path.rename(kept)
        done.kept.append(kept.name)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
    done.made.append(near(path, done.home))


def _free_name(path: Path) -> Path:
    for number in range(1, 10_000):
        kept = path.with_name(f"{path.name}.bak" if number == 1 else f"{path.name}.{number}.bak")
        if not os.path.lexists(kept):
            return kept
    raise InputError(f"there are too many {path.name}.*.bak", hint="remove some of them")


# ---- an old config


def _old_values(path: Path, done: Made) -> dict[str, Value]:
    """The keys of an old config that still mean something; the others are told of."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        root = parse_yaml(UNQUOTED.sub(r'\1"\2"', text), str(path))
    except InputError as error:
        done.dropped.append(f"all of {path.name}: {error.what}")
        return {}
    found: dict[str, Value] = {}
    for name, marked in _leaves(root, DEPTH):
        key = BY_NAME.get(name)
        try:
            if key is None:
                done.dropped.append(f"{name}: not a key")
            elif name in found:
                done.dropped.append(f"{name}: given twice")
            else:
                found[name] = value_of(key, marked if key.kind in TEXTUAL else _unquoted(marked))
        except InputError as error:
            done.dropped.append(f"{name}: {error.hint or error.what}")
    done.taken += [key.name for key in KEYS if key.name in found]
    return found


def _unquoted(marked: YamlValue) -> YamlValue:
    """As if it had no quotes: scripts that read YAML with grep do not mind them."""
    node = marked.node
    if not isinstance(node, yaml.ScalarNode):
        return marked
    tag = _RESOLVER.resolve(yaml.ScalarNode, node.value, (True, False))  # type: ignore[no-untyped-call]
    return replace(marked, node=yaml.ScalarNode(tag, node.value, node.start_mark, node.end_mark))


def _leaves(marked: YamlValue, depth: int) -> list[tuple[str, YamlValue]]:
    if not isinstance(marked.node, yaml.MappingNode) or not depth:
        return []
    found = []
    for name, value in marked.mapping("the old config").entries.items():
        inner = _leaves(value, depth - 1) if name not in BY_NAME else []
        found += inner or [(name, value)]
    return found
