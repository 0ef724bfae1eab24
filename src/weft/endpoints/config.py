"""What a user has set for all commands, and where from: a flag, a variable, or the config file, in that order.

Where none of them names a scheduler, it is the one that this user runs at the usual port, or else the user's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from weft.endpoints.addresses import Address, address
from weft.endpoints.discovery import own_server
from weft.endpoints.paths import home
from weft.errors import InputError

LOCAL: Final = "local"
"""This user's own scheduler, on this machine."""
NEARBY: Final = "your weft server"
"""What says so where it is found running."""
MOST_BYTES: Final = 1 << 20


class Setting(NamedTuple):
    value: str
    origin: str
    """As a person finds it: --scheduler, WEFT_SCHEDULER, FILE:LINE, your weft server, or default."""


def config_file(env: Mapping[str, str] = os.environ) -> Path:
    if given := env.get("WEFT_CONFIG"):
        return Path(given)
    return Path(env.get("XDG_CONFIG_HOME") or Path(home(env), ".config"), "weft", "config.yaml")


def setting(key: str, flag: str | None = None, env: Mapping[str, str] = os.environ) -> Setting:
    """The value in effect."""
    if flag is not None:
        return Setting(flag, f"--{key}")
    if found := env.get(f"WEFT_{key.upper()}"):
        return Setting(found, f"WEFT_{key.upper()}")
    return _in_file(env).get(key) or KEYS[key].usual(env)


def scheduler(flag: str | None = None, env: Mapping[str, str] = os.environ) -> Address | None:
    """Where the scheduler is; None: this user's own."""
    value, origin = setting("scheduler", flag, env)
    return None if value == LOCAL else address(value, origin)


def _in_file(env: Mapping[str, str]) -> dict[str, Setting]:
    path = config_file(env)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            text = file.read(MOST_BYTES).decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        if env.get("WEFT_CONFIG"):
            raise InputError("there is no such file", where=str(path), hint="WEFT_CONFIG names it") from None
        return {}
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", where=str(path)) from None
    except OSError as error:
        raise InputError(error.strerror or str(error), where=str(path)) from None
    if all(line.lstrip()[:1] in ("", "#") for line in text.splitlines()):
        return {}
    from weft.inputs.yaml import compose  # YAML takes a while to load

    found = {}
    for key, value in compose(text, str(path)).mapping("a config", tuple(KEYS)).entries.items():
        found[key] = Setting(value.text(), value.where)
        KEYS[key].check(found[key])
    return found


class Key(NamedTuple):
    usual: Callable[[Mapping[str, str]], Setting]
    """Where nobody has said anything."""
    check: Callable[[Setting], object]


def _usual_scheduler(env: Mapping[str, str]) -> Setting:
    where = own_server(env)
    return Setting(str(where), NEARBY) if where is not None else Setting(LOCAL, "default")


def _check_scheduler(given: Setting) -> None:
    if given.value != LOCAL:
        address(given.value, given.origin)


KEYS: Final = {"scheduler": Key(_usual_scheduler, _check_scheduler)}
