"""Settings for all commands: from a flag, an environment variable or the config file, in that order.

Without a setting, the scheduler is the cluster scheduler that this user runs here, or else the user's local one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from weft.endpoints.addresses import Address, parse_scheduler
from weft.endpoints.discovery import find_own_server
from weft.endpoints.paths import home_folder
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


def effective_setting(key: str, flag: str | None = None, env: Mapping[str, str] = os.environ) -> Setting:
    """Return the value in effect and its origin."""
    if flag is not None:
        return Setting(flag, f"--{key}")
    if found := env.get(f"WEFT_{key.upper()}"):
        return Setting(found, f"WEFT_{key.upper()}")
    return _read_file(env).get(key) or KEYS[key].default(env)


def scheduler_address(flag: str | None = None, env: Mapping[str, str] = os.environ) -> Address | None:
    """Return the scheduler's address; None selects the user's local scheduler."""
    value, origin = effective_setting("scheduler", flag, env)
    return None if value == LOCAL else parse_scheduler(value, origin)


def shared_folder(saved: str, env: Mapping[str, str] = os.environ) -> str:
    """Return the folder of the shared GPU ledger, as saved or as set for all commands; empty: none."""
    found = Setting(saved, "weft up") if saved else effective_setting("shared", None, env)
    _check_shared(found)
    return "" if found.value == OFF else found.value


def _read_file(env: Mapping[str, str]) -> dict[str, Setting]:
    path = _config_name(env)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            text = file.read(MAX_CONFIG_BYTES).decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        if env.get("WEFT_CONFIG"):
            raise InputError("no such file", where=str(path), hint="correct or unset WEFT_CONFIG") from None
        return {}
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", where=str(path)) from None
    except OSError as error:
        raise InputError(error.strerror or str(error), where=str(path)) from None
    if all(line.lstrip()[:1] in ("", "#") for line in text.splitlines()):
        return {}
    from weft.inputs.yaml import parse_yaml  # YAML is slow to import

    found = {}
    for key, value in parse_yaml(text, str(path)).mapping("a config", tuple(KEYS)).entries.items():
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


KEYS: Final = {
    "scheduler": Key(_default_scheduler, _check_scheduler),
    "shared": Key(lambda _env: Setting(OFF, "default"), _check_shared),
    "sharing": Key(lambda _env: Setting(SHARING_RULES[0], "default"), _check_sharing),
}
