"""Custom parsers of `scheduler_config.yml`: `config_parser: module:function` names one.

The function gets the values of the file, as YAML reads them and without `config_parser`, and the path of the file. It
returns the keys of a workspace, which Weft checks like the keys of a file.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from weft.errors import InputError

KEY: Final = "config_parser"


def find_parser(text: str) -> str:
    """Return the parser that a config names; empty if there is none or the text is not a mapping."""
    if KEY not in text:
        return ""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return ""
    name = found.get(KEY) if isinstance(found, dict) else None
    return name if isinstance(name, str) else ""


def run_parser(name: str, text: str, home: Path, path: Path) -> str:
    """Return the keys that the parser makes of a config, as YAML."""
    values = {key: value for key, value in yaml.safe_load(text).items() if key != KEY}
    where = f"{path} ({KEY} {name[:80]})"
    try:
        keys: Any = _load(name, home)(values, str(path))
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{type(error).__name__}: {error}", where=where, hint="fix the parser") from error
    if not isinstance(keys, dict) or not all(isinstance(key, str) for key in keys):
        raise InputError(f"it returned {type(keys).__name__}", where=where, hint="return a dict of keys and values")
    try:
        return yaml.safe_dump(keys, sort_keys=False, allow_unicode=True)
    except yaml.YAMLError as error:
        raise InputError(f"it returned a value that YAML cannot hold: {error}", where=where) from None


def _load(name: str, home: Path) -> Any:
    """Return the function. Its module is in the workspace or on Python's path."""
    module, _, attribute = name.partition(":")
    if str(home) not in sys.path:
        sys.path.append(str(home))
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise InputError(
            f"bad {KEY} {name[:80]!r}: {error}", hint="use module:function, with the module in the workspace"
        ) from None
    return found
