"""Settings for all commands: from a flag, an environment variable, the project file or the config file, in that order.

Without a setting, the scheduler is the cluster scheduler that this user runs here, or else the user's local one.

The project file is the `weft.yaml` in the current folder, or else in the nearest folder above it. It may come from
another person, such as the author of a repository, so it sets defaults of jobs only, and never a scheduler.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.access.endpoints.addresses import Address, parse_scheduler
from weft.access.endpoints.discovery import find_own_server
from weft.access.endpoints.paths import home_folder
from weft.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

LOCAL: Final = "local"
"""The value that selects the user's local scheduler."""
OFF: Final = "off"
"""The value that selects no shared GPU ledger."""
OWN_SERVER: Final = "your weft server"
"""The origin of a scheduler that was found running."""
MAX_CONFIG_BYTES: Final = 1 << 20
SHARING_RULES: Final = ("prio", "dilu", "off")
PROJECT_FILE: Final = "weft.yaml"


class Setting(NamedTuple):
    value: str
    origin: str
    """Where the value comes from: --scheduler, WEFT_SCHEDULER, FILE:LINE, your weft server, or default."""


def config_file(env: Mapping[str, str] = os.environ) -> Path:
    from pathlib import Path  # most commands do without it

    return Path(_config_name(env))


def _config_name(env: Mapping[str, str]) -> str:
    if given := env.get("WEFT_CONFIG"):
        return given.removeprefix("./")
    return os.path.join(env.get("XDG_CONFIG_HOME") or os.path.join(home_folder(env), ".config"), "weft", "config.yaml")


def effective_setting(
    key: str, flag: str | None = None, env: Mapping[str, str] = os.environ, *, in_project: bool = True
) -> Setting:
    """Return the value in effect and its origin. `in_project`: the project file counts."""
    if flag is not None:
        return Setting(flag, f"--{key}")
    if found := env.get(f"WEFT_{key.upper()}"):
        return Setting(found, f"WEFT_{key.upper()}")
    project = project_file() if in_project and key in PROJECT_KEYS else ""
    if project and (given := read_settings(project, PROJECT_KEYS).get(key)):
        return given
    return _read_config(env).get(key) or KEYS[key].default(env)


def job_defaults(env: Mapping[str, str] = os.environ) -> dict[str, Setting]:
    """Return the values of job fields that jobs have unless they say otherwise."""
    found = {key: effective_setting(key, None, env) for key in JOB_KEYS}
    return {key: setting for key, setting in found.items() if setting.value}


def project_file() -> str:
    """Return the path of the project file; empty: there is none. Files of other users than root do not count: in a
    folder such as /tmp, anybody could leave one."""
    try:
        folder = os.getcwd()
    except OSError:
        return ""
    while True:
        path = os.path.join(folder, PROJECT_FILE)
        if _is_trusted(path):
            return path
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above


def _is_trusted(path: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_uid in (0, os.getuid())


def scheduler_address(flag: str | None = None, env: Mapping[str, str] = os.environ) -> Address | None:
    """Return the scheduler's address; None selects the user's local scheduler."""
    value, origin = effective_setting("scheduler", flag, env)
    return None if value == LOCAL else parse_scheduler(value, origin)


def shared_folder(saved: str, env: Mapping[str, str] = os.environ) -> str:
    """Return the folder of the shared GPU ledger, as saved or as set for all commands; empty: none."""
    found = Setting(saved, "weft up") if saved else effective_setting("shared", None, env)
    _check_shared(found)
    return "" if found.value == OFF else found.value


def _read_config(env: Mapping[str, str]) -> dict[str, Setting]:
    path = _config_name(env)
    try:
        return read_settings(path, tuple(KEYS))
    except FileNotFoundError:
        if env.get("WEFT_CONFIG"):
            raise InputError("no such file", where=path, hint="correct or unset WEFT_CONFIG") from None
        return {}


def read_settings(path: str, known: tuple[str, ...]) -> dict[str, Setting]:
    """Return the settings of a file, which may have these keys. Raise FileNotFoundError if there is none."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            text = file.read(MAX_CONFIG_BYTES).decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", where=str(path)) from None
    except OSError as error:
        raise InputError(error.strerror or str(error), where=str(path)) from None
    if all(line.lstrip()[:1] in ("", "#") for line in text.splitlines()):
        return {}
    from weft.inputs.yaml import parse_yaml  # YAML is slow to import

    found = {}
    for key, value in parse_yaml(text, str(path)).mapping("a config", known).entries.items():
        found[key] = Setting(value.text(), value.where)
        KEYS[key].check(found[key])
    return found


class Key(NamedTuple):
    default: Callable[[Mapping[str, str]], Setting]
    check: Callable[[Setting], object]


def _default_scheduler(env: Mapping[str, str]) -> Setting:
    where = find_own_server(env)
    return Setting(str(where), OWN_SERVER) if where is not None else Setting(LOCAL, "default")


def _check_scheduler(given: Setting) -> None:
    if given.value != LOCAL:
        parse_scheduler(given.value, given.origin)


def _check_shared(given: Setting) -> None:
    if given.value != OFF and not given.value.startswith("/"):
        what = f"shared: {given.value[:80]!r} is not an absolute path"
        raise InputError(what, where=given.origin, hint=f"name a folder such as /var/lib/weft-gpus, or {OFF}")


def _check_sharing(given: Setting) -> None:
    rule, plus, idle = given.value.partition("+")
    if rule not in SHARING_RULES or (plus and idle != "idle"):
        what = f"sharing: unknown rule {given.value[:80]!r}"
        raise InputError(what, where=given.origin, hint=f"use {', '.join(SHARING_RULES)}, or one of them with +idle")


def sharing_setting(env: Mapping[str, str] = os.environ) -> str:
    """Return how training gives way to inference on a GPU that they share."""
    found = effective_setting("sharing", None, env)
    _check_sharing(found)
    return found.value


def _no_default(_env: Mapping[str, str]) -> Setting:
    return Setting("", "default")


def _check_text(given: Setting) -> None:
    """Accept any text: the reader of the field checks it, and names the place."""


JOB_KEYS: Final = ("memory", "time", "group", "notify")
"""Fields of jobs that have defaults."""
PROJECT_KEYS: Final = ("policy", *JOB_KEYS)
"""The keys of a project file."""
KEYS: Final = {
    "scheduler": Key(_default_scheduler, _check_scheduler),
    "shared": Key(lambda _env: Setting(OFF, "default"), _check_shared),
    "sharing": Key(lambda _env: Setting(SHARING_RULES[0], "default"), _check_sharing),
    "policy": Key(_no_default, _check_text),
    **dict.fromkeys(JOB_KEYS, Key(_no_default, _check_text)),
}
