"""The files of a new workspace."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from typing import Final

from weft.workspace.keys import KEYS, Key, Value

WRAPPER: Final = """#!/bin/sh
# Runs the configs of this folder with Weft, which has all the logic: ./scheduler.sh help
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
if [ ! -e "$here/scheduler_config.yml" ] && [ -h "$0" ]; then here=$(dirname -- "$(readlink -f -- "$0")"); fi
case ${1-} in *.yml | *.yaml) config=$1 && shift && set -- --config "$config" "$@" ;; esac
if command -v weft >/dev/null 2>&1; then exec weft workspace --dir "$here" "$@"; fi
exec @PYTHON@ -m weft workspace --dir "$here" "$@"
"""
EXAMPLE: Final = """# A config: whatever your script reads from --config_path. Copy it to NAME.yml to have it run.
learning_rate: 0.01
batch_size: 32
epochs: 10
"""
EXAMPLE_FILE: Final = "example.yml.sample"
_HEAD: Final = """# A Weft workspace: every file of config_dir that fits config_pattern is run by script_path.
# Paths are relative to this folder, or absolute; ${task_name} is filled in. See ./scheduler.sh help
"""


def wrapper() -> str:
    """Return `scheduler.sh`. If weft is not on PATH, the script uses the interpreter that created it."""
    return WRAPPER.replace("@PYTHON@", shlex.quote(sys.executable))


def config(task_name: str, chosen: Mapping[str, Value] | None = None) -> str:
    """Return `scheduler_config.yml` with all keys. Keys without a value are comments with their defaults."""
    values = {"task_name": task_name, **(chosen or {})}
    return _HEAD + "".join(f"\n# {key.meaning}\n{_line(key, values)}\n" for key in KEYS)


def _line(key: Key, values: Mapping[str, Value]) -> str:
    if key.name in values:
        return f"{key.name}: {format_value(values[key.name])}"
    return f"# {key.name}: {format_value('' if key.default is None else key.default)}"


def format_value(value: Value) -> str:
    """Return a value as YAML. A quoted string is JSON, which YAML contains."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    plain = value and value.isascii() and all(c.isalnum() or c in "_./-" for c in value) and not value[0].isdigit()
    reserved = value.lower() in ("true", "false", "yes", "no", "on", "off", "null", "y", "n", "~") or value.startswith(
        "-"
    )
    return value if plain and not reserved else json.dumps(value, ensure_ascii=False)
