"""The config of a workspace, `scheduler_config.yml`: every value is checked and keeps the line it comes from."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import yaml

from weft.errors import InputError, UnknownName
from weft.inputs.yaml import YamlMapping, YamlValue, parse_yaml
from weft.model import groups
from weft.workspace.config_parser import KEY, find_parser, run_parser
from weft.workspace.keys import BY_NAME, EXPANDED, KEYS, Key, Value

FILE: Final = groups.CONFIG_FILE
MAX_CONFIG_BYTES: Final = 1 << 20
DEFAULT: Final = "default"
"""The origin of a value that the file does not set."""
GROUP: Final = groups.WORKSPACE
"""The prefix of the groups of workspaces."""
_TAG: Final = "tag:yaml.org,2002:"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_PLACE: Final = re.compile(r"\$\{([^}]*)\}")
UNQUOTED: Final = re.compile(r"^([ \t]*[A-Za-z_]+:[ \t]+)(\*[^#\s]*)", re.MULTILINE)
"""A line whose value is meant as a pattern, but is an alias in YAML."""
_BOOLS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class Config:
    """The values of a workspace, with their origins."""

    home: Path
    """The folder of the workspace."""
    file: Path
    values: dict[str, Value]
    origins: dict[str, str]
    """Where each value comes from: `file:line`, or `default`."""

    def text(self, key: str) -> str:
        return str(self.values[key])

    def number(self, key: str) -> float:
        return float(self.values[key])

    def whole(self, key: str) -> int:
        return int(self.values[key])

    def is_on(self, key: str) -> bool:
        return bool(self.values[key])

    def path(self, key: str) -> Path:
        """Return a path as an absolute one. A relative path starts at the workspace."""
        return Path(os.path.normpath(self.home / os.path.expanduser(self.text(key))))

    @property
    def group(self) -> str:
        """The group of its jobs. It is unique, even if two workspaces share a config file."""
        return f"{GROUP}{self.file}" if self.file.parent == self.home else f"{GROUP}{self.home}:{self.file}"

    @property
    def task_name(self) -> str:
        return self.text("task_name")

    @property
    def prefix(self) -> str:
        """The first part of the names of its tasks' sessions."""
        return self.text("worker_prefix") or self.task_name

    @property
    def scheduler_session(self) -> str:
        return self.task_name + self.text("scheduler_session_suffix")


def find(folder: str | Path | None, file: str | None) -> tuple[Path, Path]:
    """Return the workspace and its config. Look for `file` in the workspace, then in the current directory."""
    home = Path(os.path.realpath(folder or "."))
    if not home.is_dir():
        raise InputError(f"{home} is not a folder", hint="weft workspace init DIR makes a workspace")
    given = home / (file or FILE)
    if file and not given.exists() and Path(file).exists():
        given = Path(file)
    path = Path(os.path.realpath(given))
    if not path.is_file():
        hint = "check the name of the file" if file else "weft workspace init DIR makes a workspace"
        raise InputError(f"there is no {file or FILE} in {home}", hint=hint)
    return home, path


def read(folder: str | Path | None = None, file: str | None = None) -> Config:
    """Return the config of a workspace. Raise InputError with the line of the first mistake."""
    home, path = find(folder, file)
    return parse(_read_text(path), home, path)


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            content = opened.read(MAX_CONFIG_BYTES + 1)
        if len(content) > MAX_CONFIG_BYTES:
            raise InputError("too large for a config", where=str(path), hint=f"at most {MAX_CONFIG_BYTES >> 20} MB")
        return content.decode()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", where=str(path), hint="save it as UTF-8") from None


def parse(text: str, home: Path, path: Path) -> Config:
    """Return the config in a text. A `config_parser` named there turns the text into keys first."""
    name = find_parser(text)
    if not name:
        return _parse(text, home, path, str(path))
    origin = f"{KEY} {name}"
    found = _parse(run_parser(name, text, home, path), home, path, origin)
    origins = {key: where if where == DEFAULT else origin for key, where in found.origins.items()}
    return replace(found, values={**found.values, KEY: name}, origins={**origins, KEY: str(path)})


def _parse(text: str, home: Path, path: Path, shown: str) -> Config:
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        raise InputError("no key is set", where=f"{shown}:1", hint="weft workspace template config prints all keys")
    mapping = _parse_mapping(text, shown)
    values: dict[str, Value] = {}
    origins: dict[str, str] = {}
    for key in KEYS:
        marked = mapping.get(key.name)
        if marked is None:
            if key.default is None:
                raise mapping.value.error(f"{key.name} is missing", f"add {key.name}: NAME, {key.meaning}")
            values[key.name], origins[key.name] = key.default, DEFAULT
        else:
            values[key.name], origins[key.name] = parse_value(key, marked), marked.where
    for name in EXPANDED:
        values[name] = str(values[name]).replace("${task_name}", str(values["task_name"]))
    return Config(home, path, values, origins)


def _parse_mapping(text: str, shown: str) -> YamlMapping:
    """Return the keys of the file. Common mistakes get a specific hint."""
    try:
        return parse_yaml(text, shown).mapping("the config", tuple(BY_NAME))
    except UnknownName as error:
        more = "weft workspace template config shows all"
        raise UnknownName(error.kind, error.name, error.known, where=error.where, more=more) from None
    except InputError as error:
        line = int(error.where.rpartition(":")[2])
        star = UNQUOTED.match(text.splitlines()[line - 1])
        if star is None:
            raise
        hint = f'quote a value that begins with a star: {star[1].strip()} "{star[2]}"'
        raise InputError(error.what, where=error.where, hint=hint) from None


def parse_value(key: Key, marked: YamlValue) -> Value:
    """Return the value of a key. Raise InputError if it is not of the key's kind."""
    if key.may_be_empty and isinstance(marked.node, yaml.ScalarNode) and marked.node.tag == f"{_TAG}null":
        return ""
    if key.kind in ("whole", "seconds", "switch") and getattr(marked.node, "style", None):
        raise marked.error(f"bad {key.name}: text", f"write it without quotes: {key.name}: {marked.text()[:80]}")
    if key.kind == "whole":
        return marked.whole(low=int(key.min), high=int(key.max))
    if key.kind == "seconds":
        return _parse_seconds(key, marked)
    if key.kind == "switch":
        return _parse_switch(marked)
    text = marked.text()
    if not text and not key.may_be_empty:
        raise marked.expected("text")
    if key.name == "task_name" and not _NAME.fullmatch(text):
        raise marked.error(f"bad task_name: {text[:80]!r}", "use at most 100 letters, digits and . _ + -")
    if key.kind == "name" and key.name != "task_name" and not _VARIABLE.fullmatch(text):
        raise marked.error(f"bad {key.name}: {text[:80]!r}", "a variable has letters, digits and underscores")
    if key.name in ("scheduler_session_suffix", "worker_prefix") and "/" in text:
        raise marked.error(f"bad {key.name}: {text[:80]!r}", "remove the slash: the value is part of a file name")
    unknown = next((found[0] for found in _PLACE.finditer(text) if found[1] != "task_name"), "")
    if unknown and key.name in EXPANDED and key.name != "pre_command":  # the shell expands its variables
        raise marked.error(f"{unknown[:80]} is not known", "only ${task_name} is filled in")
    return text


def _parse_seconds(key: Key, marked: YamlValue) -> float:
    try:
        value = float(marked.text()) if marked.node.tag in (f"{_TAG}int", f"{_TAG}float") else -1.0
    except ValueError:
        value = -1.0
    if not key.min <= value <= key.max:
        raise marked.expected(f"seconds, from {key.min:g} to {key.max:,.0f}")
    return value


def _parse_switch(marked: YamlValue) -> bool:
    if marked.node.tag != f"{_TAG}bool":
        raise marked.expected("true or false")
    return _BOOLS[str(marked.node.value).lower()]
